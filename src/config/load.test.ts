import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { configFiles } from '../../test/support/config-files.ts'
import { loadDatabaseUrl } from './file.ts'
import { loadConfiguration } from './load.ts'
import { DEFAULTS, type Environment, type Settings, UPSTREAM_DEFAULTS } from './settings.ts'

const { folder, fileOf, load, problemsOf, assertProblems } = configFiles()

const settingsOf = (content: unknown, env: Environment = {}): Settings => load(content, env).settings

const local = { base_url: 'http://127.0.0.1:9/v1', api_key_env: null }
const toLocal = (model: string) => ({ targets: [{ upstream: 'local', model }] })
const allLocal = { 'gpt-5': toLocal('a'), 'gpt-5.2': toLocal('b'), 'gpt-5-mini': toLocal('c') }

test('an empty file gives the defaults', () => {
  assert.deepEqual(settingsOf({}), DEFAULTS)
})

test('a file may begin with a byte order mark', () => {
  assert.equal(settingsOf('\ufeff{"port": 1234}').port, 1234)
  assert.equal(loadDatabaseUrl({}, fileOf('\ufeff{"database": "sqlite:./a.db"}')), 'sqlite:./a.db')
})

function merges(
  name: string,
  file: object,
  env: Environment,
  of: (settings: Settings) => unknown,
  is: unknown,
) {
  test(name, () => assert.deepEqual(of(settingsOf(file, env)), is))
}

merges(
  'objects merge key by key',
  { jobs: { concurrency: 3 }, limits: { json_depth: 32 } },
  {},
  ({ jobs, limits }) => [jobs, limits],
  [
    { ...DEFAULTS.jobs, concurrency: 3 },
    { ...DEFAULTS.limits, json_depth: 32 },
  ],
)
merges(
  "a tier of one's own takes the values that it does not set from the one that it is based on",
  { tiers: { user_pro: { weight: 5 }, gold: { based_on: 'user_pro', max_batch_jobs: 100 } } },
  {},
  ({ tiers }) => (tiers as Readonly<Record<string, unknown>>).gold,
  { ...DEFAULTS.tiers.user_pro, based_on: 'user_pro', weight: 5, max_batch_jobs: 100 },
)
merges(
  'a partial tier is completed, and leaves the other tiers alone',
  { tiers: { user_free: { max_batch_jobs: 5 } } },
  {},
  ({ tiers }) => tiers,
  { ...DEFAULTS.tiers, user_free: { ...DEFAULTS.tiers.user_free, max_batch_jobs: 5 } },
)
merges(
  'arrays replace',
  { tiers: { user_free: { models: ['gpt-5'] } }, callbacks: { retry_seconds: [1] } },
  {},
  ({ tiers, callbacks }) => [tiers.user_free.models, callbacks],
  [['gpt-5'], { ...DEFAULTS.callbacks, retry_seconds: [1] }],
)

const another = { targets: [{ upstream: 'openai', model: 'x' }] }
const limited = { api_key_env: null, max_concurrency: 7 }
const inFile = { host: '127.0.0.2', port: 1, database: 'sqlite:file.db' }
const addresses = ({ host, port, database }: Settings) => [host, port, database]

test("an upstream's missing keys take the defaults, whatever its name", () => {
  const { upstreams } = settingsOf({ upstreams: { openai: limited, local }, models: allLocal })
  const completed = {
    openai: { ...UPSTREAM_DEFAULTS, ...limited },
    local: { ...UPSTREAM_DEFAULTS, ...local },
  }
  assert.deepEqual(upstreams, completed)
})

test('an entry of models replaces the default of its name, or is added, and the others stay', () => {
  const models = { 'gpt-auto': another, 'mistral/large': another }
  assert.deepEqual(settingsOf({ models }).models, { ...DEFAULTS.models, ...models })
})

test('$schema is allowed', () => {
  assert.equal(settingsOf({ $schema: './parley.schema.json', port: 1 }).port, 1)
})

test('environment beats file, and PORT 0 is a port', () => {
  const env = { HOST: '127.0.0.3', PORT: '0', DATABASE_URL: 'sqlite:environment.db' }
  assert.deepEqual(addresses(settingsOf(inFile, env)), ['127.0.0.3', 0, 'sqlite:environment.db'])
})

test('file beats default, and an empty variable counts as not set', () => {
  const env = { HOST: '', PORT: '', DATABASE_URL: '' }
  assert.deepEqual(addresses(settingsOf(inFile, env)), ['127.0.0.2', 1, 'sqlite:file.db'])
})

test('OPENAI_BASE_URL beats the file and keeps the rest of the upstream', () => {
  const file = { upstreams: { openai: { base_url: 'http://file/v1', ...limited } } }
  const { openai } = settingsOf(file, { OPENAI_BASE_URL: 'http://environment/v1' }).upstreams
  assert.deepEqual(openai, { ...UPSTREAM_DEFAULTS, base_url: 'http://environment/v1', ...limited })
})

test('OPENAI_* change no other upstream', () => {
  const env = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://environment/v1', OPENAI_MODEL: 'one' }
  const file = { upstreams: { local }, models: { 'gpt-5': toLocal('a') } }
  const { upstreams, models } = settingsOf(file, env)
  assert.deepEqual([upstreams.local?.base_url, models['gpt-5']], [local.base_url, toLocal('a')])
  assert.deepEqual(models['gpt-5.2'], { targets: [{ upstream: 'openai', model: 'one' }] })
})

test('with OPENAI_MODEL every public name maps to that model, and gpt-auto still picks among the names', () => {
  const { models } = settingsOf({}, { OPENAI_API_KEY: 'k', OPENAI_MODEL: 'one' })
  const found = Object.values(models).map(({ targets, auto }) => targets?.[0]?.model ?? auto)
  assert.deepEqual(found, ['one', 'one', 'one', DEFAULTS.models['gpt-auto']?.auto, 'one'])
})

const toAll = { upstreams: { local }, models: allLocal }
const key = { OPENAI_API_KEY: 'k' }
const exposed = { database: 'postgres://db/x', host: '::', trust_proxy: true }
const simulations: readonly (readonly [simulated: boolean, file: object, env?: Environment])[] = [
  [true, {}],
  [true, { jobs: { concurrency: 3 } }],
  [true, { upstreams: {} }],
  [false, toAll],
  [false, {}, key],
  [false, {}, { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' }],
  [false, {}, { ...key, OPENAI_MODEL: 'one' }],
  [true, {}, { OPENAI_API_KEY: '' }],
  [true, { host: 'localhost' }],
  [true, { host: '[::1]' }],
  [true, { host: '127.1.2.3' }],
  [true, { simulator: true, ...exposed }],
  [true, { simulator: true, ...toAll }],
  [true, { simulator: true, upstreams: { openai: {} } }],
  [true, { simulator: false }, { PARLEY_SIMULATOR: 'true' }],
  [false, { simulator: true }, { PARLEY_SIMULATOR: 'auto', ...key }],
  [false, { simulator: false, ...toAll }],
  [false, { database: 'postgres://db/x' }, key],
]

for (const [simulated, file, env] of simulations) {
  test(`the simulator ${simulated ? 'runs' : 'does not run'}: ${JSON.stringify({ file, env })}`, () => {
    assert.equal(load(file, env).simulated, simulated)
  })
}

const notByAccident: readonly (readonly [why: RegExp, file: object, env?: Environment])[] = [
  [/the database is Postgres/, { database: 'postgres://db/x' }],
  [/the database is Postgres/, {}, { DATABASE_URL: 'postgresql://db/x' }],
  [/the host :: is not a loopback address/, { host: '::' }],
  [/the host 0\.0\.0\.0 is not a loopback address/, {}, { HOST: '0.0.0.0' }],
  [/the host 127\.example\.com is not/, { host: '127.example.com' }],
  [/the host unix:\/run\/parley\.sock is not/, { host: 'unix:/run/parley.sock' }],
  [/trust_proxy is set/, { trust_proxy: true }],
  [/trust_proxy is set/, { trust_proxy: '10.0.0.0/8' }],
  [/the simulator is disabled/, { simulator: false }],
  [/the simulator is disabled/, {}, { PARLEY_SIMULATOR: 'false' }],
]

for (const [why, file, env] of notByAccident) {
  test(`without a model the server does not start: ${JSON.stringify({ file, env })}`, () => {
    const [problem = '', ...others] = problemsOf(file, env)
    assert.deepEqual(others, [])
    for (const part of [why, /OPENAI_API_KEY/, /upstreams/, /PARLEY_SIMULATOR=true/])
      assert.match(problem, part)
  })
}

const misspelled: readonly (readonly [name: string, meant: string])[] = [
  ['OPENAI_APIKEY', 'OPENAI_API_KEY'],
  ['OPENAI_API_KYE', 'OPENAI_API_KEY'],
  ['OPENAI_BASEURL', 'OPENAI_BASE_URL'],
  ['OPENAI_MODELS', 'OPENAI_MODEL'],
  ['PARLEY_ADMIN_TOKN', 'PARLEY_ADMIN_TOKEN'],
  ['PARLEY_CONFG', 'PARLEY_CONFIG'],
  ['PARLEY_SIMULATE', 'PARLEY_SIMULATOR'],
  ['PARLEY_ULR', 'PARLEY_URL'],
]

for (const [name, meant] of misspelled) {
  test(`stops the start, and commands on the database: ${name} instead of ${meant}`, () => {
    const env = { [name]: 'x' }
    const [problem = '', ...others] = problemsOf({}, env)
    assert.deepEqual(others, [])
    assert.match(problem, new RegExp(`^${name}: .*did you mean ${meant}\\?`))
    assert.throws(() => loadDatabaseUrl(env, fileOf({})), new RegExp(`did you mean ${meant}`))
    assert.deepEqual(problemsOf({}, { [name]: '' }), [], 'an empty variable counts as not set')
  })
}

test('variables of Kubernetes, of OpenAI clients, of other programs and of the file stop nothing', () => {
  const names = [
    ...['PARLEY_PORT', 'PARLEY_SERVICE_HOST', 'PARLEY_SERVICE_PORT', 'PARLEY_SERVICE_PORT_HTTP'],
    ...['PARLEY_PORT_8080_TCP', 'PARLEY_PORT_8080_TCP_ADDR', 'PARLEY_PORT_8080_TCP_PROTO'],
    ...['PARLEY_API_SERVICE_HOST', 'PARLEY_API_PORT', 'PARLEY_TAG', 'PARLEY_IMAGE', 'PARLEY_TEST_SEED'],
    ...['OPENAI_ORG_ID', 'OPENAI_ORGANIZATION', 'OPENAI_PROJECT', 'OPENAI_PROJECT_ID', 'OPENAI_LOG'],
    ...['OPENAI_API_BASE', 'OPENAI_API_TYPE', 'OPENAI_API_VERSION', 'OPENAI_WEBHOOK_SECRET'],
    ...['OPENAI_ADMIN_KEY', 'OPENAI_PROXY', 'HOME', 'PGHOST', 'PATH', 'PORTS', 'DATABASE_URLS', 'LOG_LEVELS'],
  ]
  const env = Object.fromEntries(names.map((name) => [name, 'tcp://10.0.0.1:8080']))
  assert.deepEqual(problemsOf({}, env), [])
  const second = { ...local, api_key_env: 'OPENAI_API_KEY2', headers: { a: { env: 'OPENAI_MODEL2' } } }
  const file = { upstreams: { local: second }, models: allLocal }
  assert.deepEqual(problemsOf(file, { OPENAI_API_KEY2: 'k', OPENAI_MODEL2: 'm' }), [])
})

/** Declares a test that a file and an environment stop the start with exactly these problems. */
const stops = (name: string, file: unknown, env: Environment, ...says: readonly RegExp[]) =>
  test(`stops the start: ${name}`, () => assertProblems(file, env, ...says))

const of = (upstream: string, more: object = {}) => ({ targets: [{ upstream, model: 'x', ...more }] })
const price = { input: 1, output: 2 }
const twice =
  '{\n "tiers": { "user_go": { "models": [] } },\n "jobs": [{ "a": 1 }, { "a": 1 }],\n "tiers": {}, "jobs": {}\n}'
const noKey = /^upstreams\.openai\.api_key_env: the environment variable OPENAI_API_KEY is not set/
const noPort = /^PORT: must be a number from 0 to 65535/

stops(
  'a tier of your own without the one that it is based on',
  { tiers: { user_gold: {} } },
  {},
  /^tiers\.user_gold: unknown setting; did you mean user_go\? \(a tier of your own needs based_on, .*\)$/,
)
stops(
  'a name with a slash in it',
  { models: { 'mistral/large': { targets: [], extra: 1 } } },
  {},
  /^models\.mistral\/large\.targets: /,
  /^models\.mistral\/large\.extra: unknown setting$/,
)
stops(
  'a database URL with one slash',
  { database: 'postgres:/host/db' },
  key,
  /^database: must be sqlite:PATH or postgres:\/\/USER/,
)
stops('a database in memory', { database: 'sqlite::memory:' }, {}, /^database: must be in a file, /)
stops('a value out of range', { port: 65_536 }, {}, /^port: must be <= 65535$/)
stops('null for an object', { jobs: null }, {}, /^jobs: must be object$/)
stops('an array for an object', { models: [] }, {}, /^models: must be object$/)
stops('a file that is not JSON', '{"port": 1,}', {}, /\.json: .*JSON/)
stops('a file without an object', '[1]', {}, /\.json: must contain a JSON object$/)
stops(
  'a setting that the file has twice',
  twice,
  {},
  /^tiers: is given twice, but only the last one would be used$/,
  /^jobs: is given twice, /,
)
stops(
  'a model with both targets and auto, and one with neither',
  { models: { a: { ...of('openai'), auto: [{ model: 'gpt-5' }] }, b: {} } },
  {},
  /^models\.a: must have either targets or auto$/,
  /^models\.b: must have either targets or auto$/,
)
stops(
  'auto of a model that is itself auto',
  { models: { a: { auto: [{ model: 'gpt-auto' }] } } },
  {},
  /^models\.a\.auto: gpt-auto must name a model that has targets$/,
)
stops(
  'prices without a currency, a price of a model with auto, and one below 0',
  {
    models: {
      a: { ...of('openai'), price },
      b: of('openai', { price }),
      c: { auto: [{ model: 'a' }], price },
    },
  },
  {},
  /^models\.a\.price: requires currency, such as "currency": "EUR"$/,
  /^models\.b\.price: requires currency/,
  /^models\.c\.price: a model with auto has the prices of the models that it chooses from$/,
)
stops(
  'a currency that is none',
  { currency: 'Euro' },
  {},
  /^currency: must be three capital letters, such as EUR, not Euro$/,
)
stops(
  'a range that is not valid',
  { callbacks: { allow_networks: ['10.0.0.0/40'] } },
  {},
  /^callbacks\.allow_networks: 10\.0\.0\.0\/40 is not a valid CIDR range/,
)
stops(
  'a proxy and an origin that are not valid',
  { trust_proxy: '10.0.0.0/8, proxy.example', cors: { origins: ['*', 'https://ok.example', 'nonsense'] } },
  key,
  /^trust_proxy: proxy\.example is not a valid CIDR range/,
  /^cors\.origins: nonsense is not a valid origin/,
)
stops('an upstream without its key', { upstreams: { openai: {} } }, {}, noKey)
stops('OPENAI_MODEL without a key or an address', {}, { OPENAI_MODEL: 'one' }, noKey)
stops(
  'an address that is not an http URL',
  {},
  { OPENAI_BASE_URL: 'localhost:9' },
  /^upstreams\.openai\.base_url: must be an http or https URL$/,
)
stops('PORT that is not a number', {}, { PORT: '80a' }, noPort)
stops('PORT out of range', {}, { PORT: '65536' }, noPort)
stops(
  'PARLEY_SIMULATOR that is neither true, false nor auto',
  {},
  { PARLEY_SIMULATOR: 'yes' },
  /^PARLEY_SIMULATOR: must be true, false or auto, not yes$/,
)

test('threads has no effect, and must still be auto or a number from 1 to 64', () => {
  for (const threads of ['auto', 1, 64]) assert.equal(settingsOf({ threads }).threads, threads)
  for (const threads of [0, 65, 1.5, 'many', null]) {
    const problems = problemsOf({ threads })
    assert.ok(problems.length > 0 && problems.every((one) => one.startsWith('threads: must ')), `${problems}`)
  }
})

test('a database address is never repeated: it may hold a password', () => {
  const env = { DATABASE_URL: 'mysql://user:canary@host/db' }
  const [problem = '', ...more] = problemsOf({}, env)
  assert.match(problem, /^database: must be /)
  assert.ok(!problem.includes('canary'))
  assert.deepEqual(more, [])
  assert.throws(() => loadDatabaseUrl(env, fileOf({})), { name: 'ConfigurationError', message: problem })
})

test('an upstream that no model uses may lack its key', () => {
  const file = { upstreams: { local, azure: { ...local, api_key_env: 'AZURE_KEY' } }, models: allLocal }
  const { access } = load(file)
  assert.deepEqual([access.get('local')?.apiKey, access.get('azure')?.apiKey], [null, null])
})

test('a key is taken from the variable that the upstream names', () => {
  const content = { upstreams: { local: { ...local, api_key_env: 'MY_KEY' } }, models: allLocal }
  assert.equal(load(content, { MY_KEY: 'k' }).access.get('local')?.apiKey, 'k')
})

test('a server given by OPENAI_BASE_URL requires no key unless the file says so, and gets one that is set', () => {
  const keyOf = (openai?: object, env: Environment = {}) =>
    load(openai ? { upstreams: { openai } } : {}, { OPENAI_BASE_URL: local.base_url, ...env }).access.get(
      'openai',
    )?.apiKey
  assert.equal(keyOf(), null)
  assert.equal(keyOf({ body: { max_tokens: 100 } }), null)
  assert.throws(() => keyOf({ api_key_env: 'OPENAI_API_KEY' }), /OPENAI_API_KEY is not set/)
  assert.equal(keyOf(undefined, key), 'k')
})

test('the file: --config beats PARLEY_CONFIG, and a file that is named must exist', () => {
  const option = fileOf({ port: 1 })
  const variable = fileOf({ port: 2 })
  const byOption = loadConfiguration({ PARLEY_CONFIG: variable }, option)
  assert.deepEqual([byOption.settings.port, byOption.file], [1, option])
  const byVariable = loadConfiguration({ PARLEY_CONFIG: variable })
  assert.deepEqual([byVariable.settings.port, byVariable.file], [2, variable])
  for (const load of [loadConfiguration, loadDatabaseUrl]) {
    const none = join(folder, 'none.json')
    assert.throws(() => load({}, none), /none\.json: the configuration file does not exist/)
  }
})

test('the level of the log', () => {
  assert.equal(load({}).logLevel, 'info')
  assert.equal(load({}, { LOG_LEVEL: 'debug' }).logLevel, 'debug')
})

test('commands that need only the database ignore other settings', () => {
  const file = fileOf({ database: 'sqlite:file.db', jobs: 'wrong' })
  assert.equal(loadDatabaseUrl({}, file), 'sqlite:file.db')
  assert.equal(loadDatabaseUrl({ DATABASE_URL: 'sqlite:environment.db' }, file), 'sqlite:environment.db')
  assert.equal(loadDatabaseUrl({}, fileOf({})), DEFAULTS.database)
  assert.throws(() => loadDatabaseUrl({}, fileOf({ database: 5 })), /database: must be a string/)
})

test('all problems are reported at once, each with the file, its line and the nearest name', () => {
  const file = fileOf(`{
  "port": "8080",
  "trust_proxi": true,
  "jobs": {
    "concurency": 3,
    "lease_seconds": 0
  },
  "cors": { "origins": ["nonsense"] },
  "upstreams": {
    "local": { "base_url": "http://127.0.0.1:9/v1", "api_key_env": null, "roles": "natve" },
    "azure": {
      "base_url": "not a URL"
    }
  },
  "models": {
    "gpt.5/a": { "targets": [{ "upstream": "locl", "model": "x" }] },
    "wrong": { "target": [] },
    "uses": { "auto": [{ "model": "wrong" }] },
    "azure": { "targets": [{ "upstream": "azure", "model": "x" }] }
  },
  "tiers": { "user_free": { "models": ["azur"] }, "user_fre": {} }
}`)
  const env = { LOG_LEVEL: 'loud', PARLEY_CONFG: 'x', DATABASE_URL: 'mysql://x', OPENAI_MAX_CONCURRENCY: '0' }
  const expected: readonly (readonly [start: string, line: number | null])[] = [
    ['PARLEY_CONFG: unknown environment variable; did you mean PARLEY_CONFIG?', null],
    ['OPENAI_MAX_CONCURRENCY: must be a whole number', null],
    ['port: must be integer', 2],
    ['trust_proxi: unknown setting; did you mean trust_proxy?', 3],
    ['jobs.concurency: unknown setting; did you mean concurrency?', 5],
    ['jobs.lease_seconds: must be >= 1', 6],
    ['upstreams.local.roles: must ', 10],
    ['models.wrong.target: unknown setting; did you mean targets?', 17],
    ['tiers.user_fre: unknown setting; did you mean user_free?', 21],
    ['database: must be sqlite:PATH', null],
    ['models.gpt.5/a.targets: there is no upstream locl; did you mean local?', 16],
    ['tiers.user_free.models: there is no model azur; did you mean azure?', 21],
    ['cors.origins: nonsense is not a valid origin', 8],
    ['upstreams.azure.base_url: must be an http or https URL', 12],
    ['upstreams.azure.api_key_env: the environment variable OPENAI_API_KEY is not set', 11],
    ['LOG_LEVEL: must be one of', null],
  ]
  const problems = messageOf(() => loadConfiguration(env, file)).split('\n')
  for (const [start, line] of expected) {
    const found = problems.filter((problem) => problem.startsWith(start))
    assert.ok(found.length > 0, `no problem starts with ${start}:\n${problems.join('\n')}`)
    for (const problem of found) {
      assert.equal(
        / \((\S+):(\d+)\)$/.exec(problem)?.slice(1).join(':') ?? null,
        line && `${file}:${line}`,
        problem,
      )
    }
  }
  const unexpected = problems.filter((problem) => !expected.some(([start]) => problem.startsWith(start)))
  assert.deepEqual(unexpected, [], 'no problem only follows from another one')
})

function messageOf(load: () => unknown): string {
  try {
    load()
  } catch (error) {
    return String(error instanceof Error && error.message)
  }
  return ''
}
