/** What style can be held by a test: which folder imports which, and what stands in one place only. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { identifiersIn, splitSource } from '../test/support/source-text.ts'
import { settingsJsonSchema, settingsPage } from './config/document.ts'

const SRC = dirname(fileURLToPath(import.meta.url))
const ROOT = dirname(SRC)
const CLIENT = join(ROOT, 'client/src')

interface Source {
  /** From its folder of sources, such as `job/job.ts`. */
  readonly path: string
  readonly text: string
  /** The files of the project that it imports, from the same folder. */
  readonly imports: readonly string[]
}

function sourcesIn(folder: string): readonly Source[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => {
      const text = readFileSync(join(folder, path), 'utf8')
      const imports = [...text.matchAll(/(?:from|import|URL)\(? ?'(\.[^']+)'/g)].map((found) =>
        relative(folder, resolve(folder, dirname(path), found[1] ?? '')),
      )
      return { path, text, imports }
    })
}

const sources = sourcesIn(SRC)
const client = sourcesIn(CLIENT)
const isTest = ({ path }: Source) => path.endsWith('.test.ts')
const program = sources.filter((source) => !isTest(source))
const clientProgram = client.filter((source) => !isTest(source))

/** The folder of a path; a file in `src/` itself stands for itself. */
const folderOf = (path: string) => path.split('/')[0] ?? path

/** What any folder may import. */
const FOR_ALL = ['clock.ts', 'lookup-cache.ts', 'module-url.ts', 'polling-loop.ts', 'version.ts']

/** What json-schema/ offers to other folders; the rest of it is its own. */
const JSON_SCHEMA = [
  'json-schema/answer-schema.ts',
  'json-schema/check-answer.ts',
  'json-schema/make-example.ts',
  'json-schema/read-schema.ts',
  'json-schema/strict-rules.ts',
]

/** What each folder may import besides itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'json-schema': [],
  job: JSON_SCHEMA,
  net: [],
  tokens: ['job'],
  // Its page shows what the server's own check of a schema says; of `admin` it takes types only (test/browser/serving.test.ts).
  dashboard: ['job', ...JSON_SCHEMA, 'admin'],
  config: ['job', 'net', 'telemetry/log-level.ts'],
  store: ['job'],
  upstreams: ['job', ...JSON_SCHEMA, 'config/settings.ts'],
  accounts: ['job/tier.ts', 'net/signature.ts', 'store/account-store.ts'],
  admin: ['accounts/issue-key.ts', 'job', 'store'],
  queue: [
    'job',
    ...JSON_SCHEMA,
    'net',
    'store/store.ts',
    'store/account-store.ts',
    'store/admin-action-store.ts',
    'store/node-store.ts',
    'store/usage-store.ts',
    'upstreams/model-server.ts',
    'upstreams/pause.ts',
  ],
  callbacks: [
    'job',
    'net',
    'queue/retry-write.ts',
    'store/store.ts',
    'store/account-store.ts',
    'store/callback-store.ts',
  ],
  http: [
    'accounts',
    'admin',
    'dashboard/page.ts',
    'job',
    ...JSON_SCHEMA,
    'net/signature.ts',
    'queue',
    'store/store.ts',
    'store/account-store.ts',
    'store/callback-store.ts',
    'store/expiry.ts',
    'store/pagination.ts',
    'store/operator-store.ts',
    'store/usage-store.ts',
  ],
  telemetry: [
    'admin/metric-sample.ts',
    'admin/metric-feed.ts',
    'admin/overview.ts',
    'http/server.ts',
    'job',
    'queue',
    'upstreams',
    'store/store.ts',
    'store/callback-store.ts',
  ],
}
const WIRING = ['app', 'cli', 'node-version.ts', 'main.ts']

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

test('the client imports nothing but its own files: no dependency, nothing of the server, nothing of Node', () => {
  const imported = /\b(?:from|import|require)\b ?\(? ?['"`]([^'"`]+)/g
  const wrong = clientProgram.flatMap(({ path, text }) =>
    [...withoutComments(text).matchAll(imported)]
      .map(([, target = '']) => target)
      .filter((target) => !/^\.\/[a-z-]+\.ts$/.test(target))
      .map((target) => `${path} imports ${target}`),
  )
  assert.deepEqual(wrong, [])
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(CLIENT, '../package.json'), 'utf8'))
  assert.deepEqual([dependencies, peerDependencies], [undefined, undefined])
})

function withoutComments(text: string): string {
  return text.replace(/\/\*.*?\*\//gs, '').replace(/^\s*\/\/.*$/gm, '')
}

test('no file imports itself by way of others', () => {
  for (const folder of [sources, client]) assertNoCircle(folder)
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
})

test('modules that are found by their address have the ending that they have in the package', () => {
  const wrong = program.filter(({ text }) => /\bnew URL\(\s*['"`]\.[^'"`]*\.ts['"`]/.test(text))
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
    'use moduleURL of module-url.ts',
  )
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
  const wrong = [...program, ...clientProgram].filter(
    ({ text }) => !text.replace(/^#!.*\n/, '').startsWith('/**'),
  )
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
  )
})

test('names say what things are', () => {
  const wrong = [...sources, ...client].filter(
    ({ path }) => /utils|helpers|manager|types\.ts/.test(path) || /[A-Z_]/.test(path),
  )
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
  )
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
  assert.equal(readFileSync(join(ROOT, 'parley.schema.json'), 'utf8'), settingsJsonSchema())
})

// ---- Retired names: the list and its test ----

/**
 * Words and sequences of words that no identifier and no file name may contain. The glossary in job.ts and the standard terms of
 * job queues replace them.
 */
const RETIRED_NAMES = [
  'act',
  'acts',
  'courier',
  'couriers',
  'death',
  'deaths',
  'destination',
  'destinations',
  'doubt',
  'doubts',
  'ear',
  'elsewhere',
  'fared',
  'give back',
  'given back',
  'gives back',
  'giving back',
  'hands',
  'holdings',
  'intervention',
  'interventions',
  'kept answer',
  'kept answers',
  'lane',
  'lanes',
  'lingering',
  'notices',
  'postpone',
  'postponed',
  'recall',
  'recalled',
  'reclaim',
  'reclaimed',
  'say',
  'stepping',
  'storing',
  'suspect',
  'suspects',
  'sweeper',
  'tally',
  'told',
  'under way',
  'waiter',
  'waiters',
]

/** Released names, and where the program maps them to its own. */
const RELEASED_NAMES: readonly {
  readonly names: readonly string[]
  readonly in: RegExp
  readonly because: string
}[] = [
  {
    names: ['acts'],
    in: /^(src\/http\/admin\/audit-log|src\/dashboard\/page\/contract|src\/dashboard\/page\/audit\/audit-page|test\/(http|browser|process)\/)/,
    because: 'the field of /admin/api/audit',
  },
  {
    names: ['deaths', 'under_way', 'waiters', 'trouble'],
    in: /^(src\/admin\/(job-view|callback-view|overview|metric-sample)|src\/http\/admin\/(jobs|shapes|overview)|src\/telemetry\/overview|src\/dashboard\/page\/|test\/)/,
    because: 'fields of /admin/api',
  },
  { names: ['kept_answers'], in: /^(src\/cli\/copy|test\/)/, because: 'the field of parley copy --json' },
  {
    names: ['waiters'],
    in: /^bench\/benchmarks\/held-requests/,
    because: 'the name of the benchmark in its results',
  },
  {
    names: ['max_waiters'],
    in: /^(src\/(config|app)\/|test\/|bench\/)/,
    because: 'the setting sync.max_waiters',
  },
  {
    names: ['parley_waiters', 'parley_waiter_places', 'parley_jobs_reclaimed_total'],
    in: /^(test|bench)\//,
    because: 'metrics',
  },
  {
    names: ['lane', 'callback_lane', 'deaths', 'under_way'],
    in: /^src\/(store|telemetry)\//,
    because: 'columns that row readers map, and a label of metrics',
  },
]

test('no identifier and no file name is a retired one', () => {
  const files = ['src', 'client/src', 'test', 'bench', 'scripts'].flatMap((folder) =>
    sourcesIn(join(ROOT, folder)).map(({ path, text }) => ({ path: `${folder}/${path}`, text })),
  )
  const retired = new RegExp(`\\b(${RETIRED_NAMES.join('|')})\\b`)
  const wrong = files.flatMap(({ path, text }) => {
    const released = RELEASED_NAMES.filter(({ in: where }) => where.test(path)).flatMap(({ names }) => names)
    const fileName = retired.test(path.replaceAll(/[-./]/g, ' ')) ? [`${path} is named so`] : []
    const names = identifiersIn(splitSource(text).code)
      .filter(({ name, words }) => retired.test(words) && !released.includes(name))
      .map(({ name }) => `${path}: ${name}`)
    return [...fileName, ...names]
  })
  assert.deepEqual(wrong, [])
})

// ---- Retired phrases: the list and its test ----

/** Phrases that the documents, messages and comments do not use, because plain technical English has a better one. */
const RETIRED_PHRASES: readonly (readonly [phrase: RegExp, better: string])[] = [
  [/\banew\b/, 'again'],
  [/\b(?:tell|tells|telling|told) of\b/, 'report, show'],
  [/\b(?:is|are|was|were|be|been|being) (?:not )?told\b/, 'is informed, gets, is reported'],
  [/\bwants? somebody\b/, 'page someone'],
  [/\bmend(?:s|ed|ing)?\b/, 'fix, correct, repair'],
  [/\bwhom?ever\b/, 'name who'],
  [/\bunder way\b/, 'in progress, running'],
  [/\bbesides\b/, 'in addition to'],
  [/\bstep(?:s|ped|ping)? in\b/, 'admin action'],
  [/\bkept answers?\b/, 'cached response'],
  [/\bg(?:ive|ives|iven|iving|ave) back\b/, 'release'],
  [/\b(?:tak(?:e|es|en|ing)|took) (?:\w+ )?back\b/, 'rescue'],
  [/\breclaim(?:s|ed|ing)?\b/, 'rescue'],
  [/\bdeaths?\b/, 'crash, crash count'],
  [/\bcouriers?\b/, 'callback dispatcher'],
  [/\blanes?\b/, 'delivery queue'],
  [/\bin doubt\b/, 'unknown outcome'],
  [/\b(?:an?|the|each|every|refused) acts?\b/, 'admin action, audit entry'],
  [/\bholdings\b/, 'database summary'],
  [/\bwaiters\b/, 'pending responses'],
  [/\bin hand\b/, 'running'],
  [/\bwaits? in line\b/, 'is queued'],
  [/\b(?:head|length|end|rest) of the line\b|\b(?:back to|goes by) the line\b|\blong line of\b/, 'queue'],
  [/(?<!\bthere[\s*]+)\b(?:is|are) no (?!longer|more|less|fewer|later)/, 'is not a'],
  [/\bhas ended without a word\b/, 'exited unexpectedly'],
]

/** Released names in SQL and in other strings, where they look like prose. */
const RELEASED_WORDS: readonly { readonly words: RegExp; readonly in: RegExp; readonly because: string }[] = [
  { words: /\b(?:deaths|lane)\b/g, in: /^src\/store\//, because: 'columns' },
  { words: /\b(?:lane|waiters)\b/g, in: /^src\/telemetry\//, because: 'a label and a part of metric names' },
  { words: /.+/gs, in: /^src\/store\/\w+\/migrations/, because: 'the text of released migrations stays' },
]

test('no document, message or comment uses a retired phrase', () => {
  const documents = [
    ...[
      'README.md',
      'ARCHITECTURE.md',
      'CONTRIBUTING.md',
      'CHANGELOG.md',
      'client/README.md',
      'client/CHANGELOG.md',
    ],
    ...['docs', 'deploy'].flatMap((folder) =>
      readdirSync(join(ROOT, folder))
        .filter((name) => !/\.png$/.test(name) && name !== 'pictures')
        .map((name) => `${folder}/${name}`),
    ),
  ].map((path) => ({ path, lines: proseOf(readFileSync(join(ROOT, path), 'utf8')) }))
  const files = [
    ...program.map(({ path, text }) => ({ path: `src/${path}`, text })),
    ...clientProgram.map(({ path, text }) => ({ path: `client/src/${path}`, text })),
  ].map(({ path, text }) => {
    const released = RELEASED_WORDS.filter(({ in: where }) => where.test(path))
    const withoutReleased = (prose: string) =>
      released.reduce((rest, { words }) => rest.replaceAll(words, ''), withoutCode(prose))
    return {
      path,
      lines: splitSource(text).prose.map(({ line, text }) => ({ line, text: withoutReleased(text) })),
    }
  })
  const wrong = [...documents, ...files].flatMap(({ path, lines }) =>
    lines.flatMap(({ line, text }) =>
      RETIRED_PHRASES.filter(([phrase]) => new RegExp(phrase, 'i').test(text)).map(
        ([phrase, better]) => `${path}:${line}: ${new RegExp(phrase, 'i').exec(text)?.[0]} → ${better}`,
      ),
    ),
  )
  assert.deepEqual(wrong, [])
})

/** The lines of a document outside of code blocks and queries, which contain released names. */
function proseOf(document: string): readonly { readonly line: number; readonly text: string }[] {
  let inCode = false
  return document.split('\n').flatMap((text, index) => {
    if (/^\s*```/.test(text)) inCode = !inCode
    return inCode || /"(?:expr|legendFormat)":/.test(text)
      ? []
      : [{ line: index + 1, text: withoutCode(text) }]
  })
}

/** Without what stands between backticks, and without names of metrics and fields. */
function withoutCode(text: string): string {
  return text.replaceAll(/`[^`\n]*`/g, '').replaceAll(/\b\w+_\w+\b/g, '')
}
