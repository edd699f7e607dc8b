import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ConfigurationError, loadDatabaseUrl } from './file.ts'
import { loadConfiguration } from './load.ts'
import { DEFAULTS, type Environment, type Settings, UPSTREAM_DEFAULTS } from './settings.ts'

const folder = mkdtempSync(join(tmpdir(), 'parley-config-'))
after(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
function fileOf(content: unknown): string {
  const path = join(folder, `${files++}.json`)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

/** Returns the settings that result from a file and an environment. */
function settingsOf(content: unknown, env: Environment = {}): Settings {
  return loadConfiguration(env, fileOf(content)).settings
}

function problemsOf(content: unknown, env: Environment = {}): string[] {
  try {
    loadConfiguration(env, fileOf(content))
  } catch (error) {
    assert.ok(error instanceof ConfigurationError, String(error))
    return error.message.split('\n').map((problem) => problem.replace(/ \(\S+\.json:\d+\)$/, ''))
  }
  return []
}

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

const merged: readonly {
  name: string
  file: object
  env?: Environment
  of: (settings: Settings) => unknown
  is: unknown
}[] = [
  {
    name: 'objects merge key by key',
    file: { jobs: { concurrency: 3 }, limits: { json_depth: 32 } },
    of: ({ jobs, limits }) => ({ jobs, limits }),
    is: {
      jobs: { ...DEFAULTS.jobs, concurrency: 3 },
      limits: { ...DEFAULTS.limits, json_depth: 32 },
    },
  },
  {
    name: "a tier of one's own takes the values that it does not set from the one that it is based on",
    file: {
      tiers: { user_pro: { weight: 5 }, gold: { based_on: 'user_pro', max_batch_jobs: 100 } },
    },
    of: ({ tiers }) => (tiers as Readonly<Record<string, unknown>>).gold,
    is: { ...DEFAULTS.tiers.user_pro, based_on: 'user_pro', weight: 5, max_batch_jobs: 100 },
  },
  {
    name: 'a partial tier is completed, and leaves the other tiers alone',
    file: { tiers: { user_free: { max_batch_jobs: 5 } } },
    of: ({ tiers }) => tiers,
    is: { ...DEFAULTS.tiers, user_free: { ...DEFAULTS.tiers.user_free, max_batch_jobs: 5 } },
  },
  {
    name: 'arrays replace',
    file: { tiers: { user_free: { models: ['gpt-5'] } }, callbacks: { retry_seconds: [1] } },
    of: ({ tiers, callbacks }) => [tiers.user_free.models, callbacks],
    is: [['gpt-5'], { ...DEFAULTS.callbacks, retry_seconds: [1] }],
  },
  {
    name: "a named upstream's missing keys take the defaults",
    file: { upstreams: { openai: { api_key_env: null, max_concurrency: 7 } } },
    of: ({ upstreams }) => upstreams,
    is: { openai: { ...UPSTREAM_DEFAULTS, api_key_env: null, max_concurrency: 7 } },
  },
  {
    name: 'an upstream of another name is completed from the same defaults',
    file: { upstreams: { local }, models: allLocal },
    of: ({ upstreams }) => upstreams.local,
    is: { ...UPSTREAM_DEFAULTS, ...local },
  },
  {
    name: 'an entry of models replaces the default of its name, and the others stay',
    file: { models: { 'gpt-auto': { targets: [{ upstream: 'openai', model: 'x' }] } } },
    of: ({ models }) => models,
    is: { ...DEFAULTS.models, 'gpt-auto': { targets: [{ upstream: 'openai', model: 'x' }] } },
  },
  {
    name: 'further models are more entries',
    file: { models: { 'mistral/large': { targets: [{ upstream: 'openai', model: 'm' }] } } },
    of: ({ models }) => Object.keys(models),
    is: [...Object.keys(DEFAULTS.models), 'mistral/large'],
  },
  {
    name: '$schema is allowed',
    file: { $schema: './parley.schema.json', port: 1 },
    of: ({ port }) => port,
    is: 1,
  },
  {
    name: 'environment beats file',
    file: { host: '127.0.0.2', port: 1, database: 'sqlite:file.db' },
    env: { HOST: '127.0.0.3', PORT: '2', DATABASE_URL: 'sqlite:environment.db' },
    of: ({ host, port, database }) => [host, port, database],
    is: ['127.0.0.3', 2, 'sqlite:environment.db'],
  },
  {
    name: 'file beats default, and an empty variable counts as not set',
    file: { host: '127.0.0.2', port: 1, database: 'sqlite:file.db' },
    env: { HOST: '', PORT: '', DATABASE_URL: '' },
    of: ({ host, port, database }) => [host, port, database],
    is: ['127.0.0.2', 1, 'sqlite:file.db'],
  },
  {
    name: 'PORT 0 is a port',
    file: { port: 1 },
    env: { PORT: '0' },
    of: ({ port }) => port,
    is: 0,
  },
  {
    name: 'OPENAI_BASE_URL beats the file and keeps the rest of the upstream',
    file: { upstreams: { openai: { base_url: 'http://file/v1', api_key_env: null, max_concurrency: 7 } } },
    env: { OPENAI_BASE_URL: 'http://environment/v1' },
    of: ({ upstreams }) => upstreams.openai,
    is: { ...UPSTREAM_DEFAULTS, base_url: 'http://environment/v1', api_key_env: null, max_concurrency: 7 },
  },
  {
    name: 'OPENAI_* change no other upstream',
    file: { upstreams: { local }, models: { 'gpt-5': toLocal('a') } },
    env: { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://environment/v1', OPENAI_MODEL: 'one' },
    of: ({ upstreams, models }) => [upstreams.local?.base_url, models['gpt-5'], models['gpt-5.2']],
    is: [local.base_url, toLocal('a'), { targets: [{ upstream: 'openai', model: 'one' }] }],
  },
  {
    name: 'with OPENAI_MODEL every public name maps to that model, and gpt-auto still picks among the names',
    file: {},
    env: { OPENAI_API_KEY: 'k', OPENAI_MODEL: 'one' },
    of: ({ models }) => Object.values(models).map(({ targets, auto }) => targets?.[0]?.model ?? auto),
    is: ['one', 'one', 'one', DEFAULTS.models['gpt-auto']?.auto, 'one'],
  },
]

for (const { name, file, env, of, is } of merged) {
  test(name, () => assert.deepEqual(of(settingsOf(file, env)), is))
}

const simulations: readonly { file: object; env?: Environment; simulated: boolean }[] = [
  { file: {}, simulated: true },
  { file: { jobs: { concurrency: 3 } }, simulated: true },
  { file: { upstreams: {} }, simulated: true },
  { file: { upstreams: { local }, models: allLocal }, simulated: false },
  { file: {}, env: { OPENAI_API_KEY: 'k' }, simulated: false },
  { file: {}, env: { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' }, simulated: false },
  { file: {}, env: { OPENAI_API_KEY: 'k', OPENAI_MODEL: 'one' }, simulated: false },
  { file: {}, env: { OPENAI_API_KEY: '' }, simulated: true },
  { file: { host: 'localhost' }, simulated: true },
  { file: { host: '[::1]' }, simulated: true },
  { file: { host: '127.1.2.3' }, simulated: true },
  { file: { simulator: true, database: 'postgres://db/x', host: '::', trust_proxy: true }, simulated: true },
  { file: { simulator: true, upstreams: { local }, models: allLocal }, simulated: true },
  { file: { simulator: true, upstreams: { openai: {} } }, simulated: true },
  { file: { simulator: false }, env: { PARLEY_SIMULATOR: 'true' }, simulated: true },
  { file: { simulator: true }, env: { PARLEY_SIMULATOR: 'auto', OPENAI_API_KEY: 'k' }, simulated: false },
  { file: { simulator: false, upstreams: { local }, models: allLocal }, simulated: false },
  { file: { database: 'postgres://db/x' }, env: { OPENAI_API_KEY: 'k' }, simulated: false },
]

for (const { file, env, simulated } of simulations) {
  test(`the simulator ${simulated ? 'runs' : 'does not run'}: ${JSON.stringify({ file, env })}`, () => {
    assert.equal(loadConfiguration(env ?? {}, fileOf(file)).simulated, simulated)
  })
}

const notByAccident: readonly { file: object; env?: Environment; why: RegExp }[] = [
  { file: { database: 'postgres://db/x' }, why: /the database is Postgres/ },
  { file: {}, env: { DATABASE_URL: 'postgresql://db/x' }, why: /the database is Postgres/ },
  { file: { host: '::' }, why: /the host :: is not a loopback address/ },
  { file: {}, env: { HOST: '0.0.0.0' }, why: /the host 0\.0\.0\.0 is not a loopback address/ },
  { file: { host: '127.example.com' }, why: /the host 127\.example\.com is not/ },
  { file: { host: 'unix:/run/parley.sock' }, why: /the host unix:\/run\/parley\.sock is not/ },
  { file: { trust_proxy: true }, why: /trust_proxy is set/ },
  { file: { trust_proxy: '10.0.0.0/8' }, why: /trust_proxy is set/ },
  { file: { simulator: false }, why: /the simulator is disabled/ },
  { file: {}, env: { PARLEY_SIMULATOR: 'false' }, why: /the simulator is disabled/ },
]

for (const { file, env, why } of notByAccident) {
  test(`without a model the server does not start: ${JSON.stringify({ file, env })}`, () => {
    const problems = problemsOf(file, env)
    assert.equal(problems.length, 1, problems.join('\n'))
    assert.match(problems[0] ?? '', why)
    for (const wayOut of [/OPENAI_API_KEY/, /upstreams/, /PARLEY_SIMULATOR=true/]) {
      assert.match(problems[0] ?? '', wayOut)
    }
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

const faults: readonly { name: string; file?: unknown; env?: Environment; says: readonly RegExp[] }[] = [
  { name: 'an unknown key', file: { hots: 'x' }, says: [/^hots: unknown setting; did you mean host\?$/] },
  {
    name: 'unknown keys deep inside, each with its path',
    file: { jobs: { concurency: 1 }, tiers: { user_gold: {} } },
    says: [
      /^tiers\.user_gold: unknown setting; did you mean user_go\? \(a tier of your own needs based_on, .*\)$/,
      /^jobs\.concurency: unknown setting; did you mean concurrency\?$/,
    ],
  },
  {
    name: 'a name with a slash in it',
    file: { models: { 'mistral/large': { targets: [], extra: 1 } } },
    says: [/^models\.mistral\/large\.targets: /, /^models\.mistral\/large\.extra: unknown setting$/],
  },
  {
    name: 'a database URL with one slash',
    file: { database: 'postgres:/host/db' },
    env: { OPENAI_API_KEY: 'k' },
    says: [/^database: must be sqlite:PATH or postgres:\/\/USER/],
  },
  {
    name: 'a database in memory',
    file: { database: 'sqlite::memory:' },
    says: [/^database: must be in a file, /],
  },
  { name: 'a wrong type', file: { port: '8080' }, says: [/^port: must be integer$/] },
  { name: 'a value out of range', file: { port: 65_536 }, says: [/^port: must be <= 65535$/] },
  { name: 'null for an object', file: { jobs: null }, says: [/^jobs: must be object$/] },
  { name: 'an array for an object', file: { models: [] }, says: [/^models: must be object$/] },
  { name: 'a file that is not JSON', file: '{"port": 1,}', says: [/\.json: .*JSON/] },
  {
    name: 'a setting that the file has twice',
    file: '{\n "tiers": { "user_go": { "models": [] } },\n "jobs": [{ "a": 1 }, { "a": 1 }],\n "tiers": {}, "jobs": {}\n}',
    says: [/^tiers: is given twice, but only the last one would be used$/, /^jobs: is given twice, /],
  },
  { name: 'a file without an object', file: '[1]', says: [/\.json: must contain a JSON object$/] },
  {
    name: 'targets at an upstream that does not exist',
    file: { models: { 'gpt-5': { targets: [{ upstream: 'azure', model: 'x' }] } } },
    says: [/^models\.gpt-5\.targets: there is no upstream azure$/],
  },
  {
    name: 'a model with both targets and auto, and one with neither',
    file: {
      models: { a: { targets: [{ upstream: 'openai', model: 'x' }], auto: [{ model: 'gpt-5' }] }, b: {} },
    },
    says: [/^models\.a: must have either targets or auto$/, /^models\.b: must have either targets or auto$/],
  },
  {
    name: 'auto of a model that is itself auto',
    file: { models: { a: { auto: [{ model: 'gpt-auto' }] } } },
    says: [/^models\.a\.auto: gpt-auto must name a model that has targets$/],
  },
  {
    name: 'prices without a currency, a price of a model with auto, and one below 0',
    file: {
      models: {
        a: { targets: [{ upstream: 'openai', model: 'x' }], price: { input: 1, output: 2 } },
        b: { targets: [{ upstream: 'openai', model: 'y', price: { input: 1, output: 2 } }] },
        c: { auto: [{ model: 'a' }], price: { input: 1, output: 2 } },
      },
    },
    says: [
      /^models\.a\.price: requires currency, such as "currency": "EUR"$/,
      /^models\.b\.price: requires currency/,
      /^models\.c\.price: a model with auto has the prices of the models that it chooses from$/,
    ],
  },
  {
    name: 'a currency that is none',
    file: { currency: 'Euro' },
    says: [/^currency: must be three capital letters, such as EUR, not Euro$/],
  },
  {
    name: 'a tier with a model that does not exist',
    file: { tiers: { user_free: { models: ['gpt-6'] } } },
    says: [/^tiers\.user_free\.models: there is no model gpt-6; did you mean gpt-5\?$/],
  },
  {
    name: 'a range that is not valid',
    file: { callbacks: { allow_networks: ['10.0.0.0/40'] } },
    says: [/^callbacks\.allow_networks: 10\.0\.0\.0\/40 is not a valid CIDR range/],
  },
  {
    name: 'a proxy and an origin that are not valid',
    file: {
      trust_proxy: '10.0.0.0/8, proxy.example',
      cors: { origins: ['*', 'https://ok.example', 'nonsense'] },
    },
    env: { OPENAI_API_KEY: 'k' },
    says: [
      /^trust_proxy: proxy\.example is not a valid CIDR range/,
      /^cors\.origins: nonsense is not a valid origin/,
    ],
  },
  {
    name: 'an upstream without its key',
    file: { upstreams: { openai: {} } },
    says: [/^upstreams\.openai\.api_key_env: the environment variable OPENAI_API_KEY is not set/],
  },
  {
    name: 'OPENAI_MODEL without a key or an address',
    env: { OPENAI_MODEL: 'one' },
    says: [/^upstreams\.openai\.api_key_env: the environment variable OPENAI_API_KEY is not set/],
  },
  {
    name: 'an address that is not a URL',
    env: { OPENAI_BASE_URL: 'localhost:9' },
    says: [/^upstreams\.openai\.base_url: must be an http or https URL$/],
  },
  {
    name: 'several at once',
    file: { upstreams: { openai: {} } },
    env: { LOG_LEVEL: 'loud' },
    says: [/^upstreams\.openai\.api_key_env: /, /^LOG_LEVEL: must be one of fatal, .*silent$/],
  },
  {
    name: 'PORT that is not a number',
    env: { PORT: '80a' },
    says: [/^PORT: must be a number from 0 to 65535/],
  },
  {
    name: 'PARLEY_SIMULATOR that is neither true, false nor auto',
    env: { PARLEY_SIMULATOR: 'yes' },
    says: [/^PARLEY_SIMULATOR: must be true, false or auto, not yes$/],
  },
  { name: 'PORT out of range', env: { PORT: '65536' }, says: [/^PORT: must be a number from 0 to 65535/] },
]

for (const { name, file, env, says } of faults) {
  test(`stops the start: ${name}`, () => {
    const problems = problemsOf(file ?? {}, env)
    assert.equal(problems.length, says.length, problems.join('\n'))
    for (const pattern of says) {
      assert.ok(
        problems.some((problem) => pattern.test(problem)),
        `${pattern} is none of:\n${problems.join('\n')}`,
      )
    }
  })
}

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
  const { access } = loadConfiguration(
    {},
    fileOf({ upstreams: { local, azure: { ...local, api_key_env: 'AZURE_KEY' } }, models: allLocal }),
  )
  assert.deepEqual([access.get('local')?.apiKey, access.get('azure')?.apiKey], [null, null])
})

test('a key is taken from the variable that the upstream names', () => {
  const content = { upstreams: { local: { ...local, api_key_env: 'MY_KEY' } }, models: allLocal }
  assert.equal(loadConfiguration({ MY_KEY: 'k' }, fileOf(content)).access.get('local')?.apiKey, 'k')
})

test('a server given by OPENAI_BASE_URL requires no key unless the file says so, and gets one that is set', () => {
  const OPENAI_BASE_URL = 'http://127.0.0.1:9/v1'
  assert.equal(loadConfiguration({ OPENAI_BASE_URL }, fileOf({})).access.get('openai')?.apiKey, null)
  const withBody = fileOf({ upstreams: { openai: { body: { max_tokens: 100 } } } })
  assert.equal(loadConfiguration({ OPENAI_BASE_URL }, withBody).access.get('openai')?.apiKey, null)
  const withKey = fileOf({ upstreams: { openai: { api_key_env: 'OPENAI_API_KEY' } } })
  assert.throws(() => loadConfiguration({ OPENAI_BASE_URL }, withKey), /OPENAI_API_KEY is not set/)
  const both = loadConfiguration({ OPENAI_BASE_URL, OPENAI_API_KEY: 'k' }, fileOf({}))
  assert.equal(both.access.get('openai')?.apiKey, 'k')
})

test('the file: --config beats PARLEY_CONFIG, and a file that is named must exist', () => {
  const option = fileOf({ port: 1 })
  const variable = fileOf({ port: 2 })
  const byOption = loadConfiguration({ PARLEY_CONFIG: variable }, option)
  assert.deepEqual([byOption.settings.port, byOption.file], [1, option])
  const byVariable = loadConfiguration({ PARLEY_CONFIG: variable })
  assert.deepEqual([byVariable.settings.port, byVariable.file], [2, variable])
  for (const load of [loadConfiguration, loadDatabaseUrl]) {
    assert.throws(
      () => load({}, join(folder, 'none.json')),
      /none\.json: the configuration file does not exist/,
    )
  }
})

test('the level of the log', () => {
  assert.equal(loadConfiguration({}, fileOf({})).logLevel, 'info')
  assert.equal(loadConfiguration({ LOG_LEVEL: 'debug' }, fileOf({})).logLevel, 'debug')
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
  const problems = thrownBy(() => loadConfiguration(env, file)).split('\n')
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

function thrownBy(load: () => unknown): string {
  try {
    load()
  } catch (error) {
    assert.ok(error instanceof ConfigurationError, String(error))
    return error.message
  }
  return assert.fail('nothing was thrown')
}
