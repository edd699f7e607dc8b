/** Tests the rules of style that a test can check: which folder may import which, and what may be in only one place. */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { filesPage, sourceFiles } from '../scripts/files-page.ts'
import { limitsPage } from '../scripts/limits-page.ts'
import { settingsJsonSchema, settingsPage } from '../scripts/settings-page.ts'
import {
  client,
  clientProgram,
  program,
  ROOT,
  type Source,
  schemas,
  schemasProgram,
  sources,
} from '../test/support/project-sources.ts'

/** For a file directly in `src/`, the folder is the file's name. */
const folderOf = (path: string) => path.split('/')[0] ?? path

function listed(texts: Readonly<Record<string, string>>): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, text.match(/\S+/g) ?? []]))
}

/** Every folder may import these files. */
const FOR_ALL =
  'client-gone.ts clock.ts json-object.ts lookup-cache.ts module-url.ts polling-loop.ts transient-map.ts typed-schema.ts version.ts'.split(
    ' ',
  )

const MAY_IMPORT = listed({
  'json-text': '',
  job: 'json-text parley-json-schema',
  net: '',
  sharing: 'job',
  tokens: 'job json-text',
  'cpu-pool': 'job json-text sharing tokens upstreams/read-completion.ts v1/read-body.ts',
  // The dashboard shows the result of the server's own schema check. From `admin`, it imports only types and one rule
  // (test/browser/serving.test.ts).
  dashboard: 'job parley-json-schema admin',
  config: 'job net',
  store: 'job',
  upstreams: 'job json-text sharing parley-json-schema config/settings.ts config/upstream-access.ts',
  accounts: 'job/tier.ts net/signing-secrets.ts store/account-store.ts',
  admin: 'accounts/key.ts batches/progress.ts job net/ssrf-guard.ts store',
  queue: `
    job parley-json-schema net sharing cpu-pool tokens store/store.ts store/account-store.ts
    store/expiry.ts store/held-request-store.ts store/node-store.ts store/rerun-store.ts
    store/usage-store.ts upstreams/model-server.ts upstreams/routes.ts
  `,
  callbacks: `
    job net sharing queue/retry-write.ts store/store.ts store/account-store.ts
    store/callback-store.ts
  `,
  http: `
    accounts admin dashboard/page-files.ts job parley-json-schema queue
    cpu-pool tokens json-text sharing store/store.ts store/account-store.ts store/callback-store.ts
    store/expiry.ts store/job-search-store.ts store/own-job-store.ts store/chunked-search.ts
    store/operator-store.ts store/usage-store.ts
  `,
  files: 'job queue store/file-store.ts',
  batches: 'job queue store/store.ts store/batch-store.ts store/file-store.ts',
  v1: `
    batches files http job json-text queue sharing store/batch-store.ts store/file-store.ts
    store/store.ts
  `,
  telemetry: `
    batches/progress.ts store/batch-store.ts config/allowed-values.ts admin/overview.ts cpu-pool job
    net/post.ts queue sharing upstreams store/store.ts store/callback-store.ts
  `,
})
const WIRING = ['app', 'cli', 'node-version.ts', 'main.ts']

function assertNone(wrong: readonly { readonly path: string }[], message = 'these files are wrong'): void {
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
    message,
  )
}

test('each folder imports only what it may', () => {
  const wrong = program.flatMap(({ path, imports }) => {
    const folder = folderOf(path)
    const allowed = MAY_IMPORT[folder]
    if (WIRING.includes(folder) || !allowed) return []
    return imports
      .filter((target) => folderOf(target) !== folder && !FOR_ALL.includes(target))
      .filter((target) => !allowed.includes(folderOf(target)) && !allowed.includes(target))
      .map((target) => `${path} imports ${target}`)
  })
  assert.deepEqual(wrong, [])
})

test('the table of folders in ARCHITECTURE.md lists what each folder may import', () => {
  const rows = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8').matchAll(
    /^\| `([\w-]+)\/` \|.*\| ([^|]+) \|$/gm,
  )
  const listed = [...rows]
    .filter(([, folder = '']) => !WIRING.includes(folder))
    .map(([, folder = '', imports = '']) => [
      folder,
      [...imports.matchAll(/`([\w-]+)`/g)].map(([, name]) => name).toSorted(),
    ])
  const rules = Object.entries(MAY_IMPORT).map(([folder, allowed]) => [
    folder,
    [...new Set(allowed.map(folderOf))].toSorted(),
  ])
  assert.deepEqual(listed.toSorted(), rules.toSorted())
})

test('every folder has its rule', () => {
  const known = new Set([...Object.keys(MAY_IMPORT), ...WIRING, ...FOR_ALL])
  assert.deepEqual(
    [...new Set(program.map(({ path }) => folderOf(path)))].filter((folder) => !known.has(folder)),
    [],
  )
})

test('commands speak to servers through what the client offers, and nothing else of the program does', () => {
  const wrong = program.flatMap(({ path, imports }) =>
    imports
      .filter((target) => target.startsWith('../client/'))
      .filter((target) => folderOf(path) !== 'cli' || target !== '../client/src/index.ts')
      .map((target) => `${path} imports ${target}`),
  )
  assert.deepEqual(wrong, [])
})

for (const [folder, files] of [
  ['client', clientProgram],
  ['json-schema', schemasProgram],
] as const) {
  test(`${folder}/ imports nothing but its own files: no dependency, nothing of the server, nothing of Node`, () => {
    const imported = /(?<!\.)\b(?:from|import|require)\b ?\(? ?['"`]([^'"`]+)/g
    const own = new Set(files.map(({ path }) => path))
    const wrong = files.flatMap(({ path, text }) =>
      [...withoutComments(text).matchAll(imported)]
        .map(([, target = '']) => target)
        .filter((target) => !target.startsWith('.') || !own.has(join(dirname(path), target)))
        .map((target) => `${path} imports ${target}`),
    )
    assert.deepEqual(wrong, [])
    const manifest = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'))
    assert.deepEqual([manifest.dependencies, manifest.peerDependencies], [undefined, undefined])
  })
}

test('json-schema/ is imported by its name only', () => {
  const wrong = sources.flatMap(({ path, imports }) =>
    imports
      .filter((target) => target.startsWith('../json-schema/'))
      .map((target) => `${path} imports ${target}`),
  )
  assert.deepEqual(wrong, [])
})

function withoutComments(text: string): string {
  return text.replace(/\/\*.*?\*\//gs, '').replace(/^\s*\/\/.*$/gm, '')
}

test('no file imports itself by way of others', () => {
  for (const folder of [sources, client, schemas]) assertNoCircle(folder)
})

function assertNoCircle(folder: readonly Source[]): void {
  const byPath = new Map(folder.map((source) => [source.path, source]))
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): void => {
    assert.ok(!trail.includes(path), `a circle: ${[...trail, path].join(' → ')}`)
    if (done.has(path)) return
    for (const target of byPath.get(path)?.imports ?? []) visit(target, [...trail, path])
    done.add(path)
  }
  for (const { path } of folder) visit(path, [])
}

test('no file is left unused', () => {
  const unused = (all: readonly Source[], ofProgram: readonly Source[], entries: readonly string[]) => {
    const used = new Set(all.flatMap(({ imports }) => imports))
    return ofProgram.map(({ path }) => path).filter((path) => !used.has(path) && !entries.includes(path))
  }
  assert.deepEqual(unused(sources, program, ['main.ts']), [])
  assert.deepEqual(unused(clientProgram, clientProgram, ['index.ts']), [])
  assert.deepEqual(unused(schemasProgram, schemasProgram, ['index.ts']), [])
})

test('modules that are found by their address have the ending that they have in the package', () => {
  const wrong = program.filter(({ text }) => /\bnew URL\(\s*['"`]\.[^'"`]*\.ts['"`]/.test(text))
  assertNone(wrong, 'use moduleURL of module-url.ts')
})

const LOADED = /^(?:import|export) (?!type )(?:[^'"]* from )?'(\.[^']+)'|(?<!typeof )import\('(\.[^']+)'\)/gm
/** A file of a thread starts its work when any thread except the main one loads it. */
const IS_OF_THREAD = /^(?:if \(parentPort\)|parentPort\?\.)/m

test('no thread loads the file of another thread', () => {
  const byPath = new Map(program.map((source) => [source.path, source]))
  const loadedBy = ({ path, text }: Source) =>
    [...text.matchAll(LOADED)].flatMap(
      ([, always, later = '']) => byPath.get(join(dirname(path), always ?? later)) ?? [],
    )
  const threads = program.filter(({ text }) => IS_OF_THREAD.test(text))
  assert.ok(threads.length > 1)
  for (const thread of threads) {
    const loaded = new Set([thread])
    for (const source of loaded) for (const next of loadedBy(source)) loaded.add(next)
    assert.ok(loaded.size > 1, thread.path)
    const others = threads.filter((other) => other !== thread && loaded.has(other))
    assertNone(others, `${thread.path} loads them`)
  }
})

test('SQL is in store/ only', () => {
  const sql = /\b(select .+ from|insert into|update \w+ set|delete from) /
  const wrong = program.filter(({ path, text }) => folderOf(path) !== 'store' && sql.test(text))
  assertNone(wrong)
})

test('the environment is read by commands, who hand it to config/load.ts', () => {
  const wrong = program.filter(({ path, text }) => folderOf(path) !== 'cli' && /process\.env\b/.test(text))
  assertNone(wrong)
})

test('every file of the program says its job first', () => {
  const wrong = [...program, ...clientProgram, ...schemasProgram].filter(
    ({ text }) => !text.replace(/^#!.*\n/, '').startsWith('/**'),
  )
  assertNone(wrong)
})

test('the first paragraph of a file is complete without the list after it (docs/internals/files.md)', () => {
  assertNone(sourceFiles().filter(({ job }) => job.endsWith(':')))
})

test('names say what things are', () => {
  const wrong = [...sources, ...client, ...schemas].filter(
    ({ path }) => /utils|helpers|manager|types\.ts/.test(path) || /[A-Z_]/.test(path),
  )
  assertNone(wrong)
})

test('the README shows how to run Parley and how to test it', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  for (const script of ['start', 'test']) {
    assert.match(readme, new RegExp(`^npm ci && npm ${script}\\b`, 'm'))
    assert.ok(scripts[script], `package.json has the script ${script}`)
  }
})

test('the documents made from the code are up to date (npm run docs)', () => {
  assert.equal(readFileSync(join(ROOT, 'docs/settings.md'), 'utf8'), settingsPage())
  assert.equal(readFileSync(join(ROOT, 'docs/limits.md'), 'utf8'), limitsPage())
  assert.equal(readFileSync(join(ROOT, 'docs/internals/files.md'), 'utf8'), filesPage())
  assert.equal(readFileSync(join(ROOT, 'parley.schema.json'), 'utf8'), settingsJsonSchema())
})

test('the tests that documents name exist', () => {
  const documents = globSync(['*.md', 'docs/**/*.md'], { cwd: ROOT })
  const named = documents.flatMap((document) =>
    Array.from(
      readFileSync(join(ROOT, document), 'utf8').matchAll(
        /`((?:src|test|json-schema)\/[\w/.-]+\.test\.ts)`/g,
      ),
      ([, path = '']) => ({ document, path }),
    ),
  )
  assert.ok(named.length > 100)
  assertNone(named.filter(({ path }) => !existsSync(join(ROOT, path))))
})
