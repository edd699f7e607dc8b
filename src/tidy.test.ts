/** What style can be held by a test: which folder imports which, and what stands in one place only. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { settingsJsonSchema, settingsPage } from './config/document.ts'

const SRC = dirname(fileURLToPath(import.meta.url))
const ROOT = dirname(SRC)

interface Source {
  /** From `src/`, such as `job/job.ts`. */
  readonly path: string
  readonly text: string
  /** The files of the project that it imports, from `src/`. */
  readonly imports: readonly string[]
}

const sources: readonly Source[] = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => {
    const text = readFileSync(join(SRC, path), 'utf8')
    const imports = [...text.matchAll(/(?:from|import|URL)\(? ?'(\.[^']+)'/g)].map((found) =>
      relative(SRC, resolve(SRC, dirname(path), found[1] ?? '')),
    )
    return { path, text, imports }
  })
const isTest = ({ path }: Source) =>
  /\.test\.ts$|^store\/contract\/|-for-tests\.ts$|generated-schemas/.test(path)
const program = sources.filter((source) => !isTest(source))

/** The folder of a path; a file in `src/` itself stands for itself. */
const folderOf = (path: string) => path.split('/')[0] ?? path

/** What each folder may import besides itself, `clock.ts` and `version.ts`. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  job: [],
  net: [],
  tokens: ['job'],
  config: ['net'],
  model: ['job', 'config/settings.ts'],
  store: ['job', 'config/settings.ts'],
  account: ['config/settings.ts', 'net/signature.ts', 'store/account-store.ts'],
  life: [
    'job',
    'model/model.ts',
    'model/pause.ts',
    'net',
    'store/store.ts',
    'store/account-store.ts',
    'store/callback-store.ts',
  ],
  work: ['job', 'life', 'net/post.ts', 'store/store.ts', 'store/callback-store.ts', 'store/node-store.ts'],
  http: ['account', 'job', 'life', 'store/store.ts', 'store/account-store.ts'],
  telemetry: [
    'config/settings.ts',
    'http/server.ts',
    'job',
    'life',
    'model',
    'store/store.ts',
    'store/callback-store.ts',
  ],
  admin: ['job', 'store/callback-store.ts'],
}
const WIRING = ['wiring', 'service.ts', 'cli', 'main.ts']

test('each folder imports only what it may', () => {
  const wrong = program.flatMap(({ path, imports }) => {
    const folder = folderOf(path)
    const allowed = MAY_IMPORT[folder]
    if (WIRING.includes(folder) || !allowed) return []
    return imports
      .filter((target) => folderOf(target) !== folder && !['clock.ts', 'version.ts'].includes(target))
      .filter((target) => !allowed.includes(folderOf(target)) && !allowed.includes(target))
      .map((target) => `${path} imports ${target}`)
  })
  assert.deepEqual(wrong, [])
})

test('every folder has its rule', () => {
  const known = new Set([...Object.keys(MAY_IMPORT), ...WIRING, 'clock.ts', 'version.ts'])
  assert.deepEqual(
    [...new Set(program.map(({ path }) => folderOf(path)))].filter((folder) => !known.has(folder)),
    [],
  )
})

test('no file imports itself by way of others', () => {
  const byPath = new Map(sources.map((source) => [source.path, source]))
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): void => {
    assert.ok(!trail.includes(path), `a circle: ${[...trail, path].join(' → ')}`)
    if (done.has(path)) return
    for (const target of byPath.get(path)?.imports ?? []) visit(target, [...trail, path])
    done.add(path)
  }
  for (const { path } of sources) visit(path, [])
})

test('no file is left unused', () => {
  const used = new Set(sources.flatMap(({ imports }) => imports))
  const entries = ['main.ts', 'job/schema/measure.ts']
  const unused = program
    .filter(({ path }) => !used.has(path) && !entries.includes(path))
    .map(({ path }) => path)
  assert.deepEqual(unused, [])
})

test('SQL is in store/ only', () => {
  const sql = /\b(select .+ from|insert into|update \w+ set|delete from) /
  const wrong = program.filter(({ path, text }) => folderOf(path) !== 'store' && sql.test(text))
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
  )
})

test('the environment is read by commands, who hand it to config/load.ts', () => {
  const wrong = program.filter(({ path, text }) => folderOf(path) !== 'cli' && /process\.env\b/.test(text))
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
  )
})

test('every file of the program says its job first', () => {
  const wrong = program.filter(({ text }) => !text.replace(/^#!.*\n/, '').startsWith('/**'))
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
  )
})

test('names say what things are', () => {
  const wrong = sources.filter(
    ({ path }) => /utils|helpers|manager|types\.ts/.test(path) || /[A-Z_]/.test(path),
  )
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
  )
})

test('the documents made from the code are up to date (npm run docs)', () => {
  assert.equal(readFileSync(join(ROOT, 'docs/settings.md'), 'utf8'), settingsPage())
  assert.equal(readFileSync(join(ROOT, 'parley.schema.json'), 'utf8'), settingsJsonSchema())
})
