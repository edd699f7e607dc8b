/**
 * Tests that defaults are removed if they depend on an entry that the file removes or does not configure, and that entries of
 * the file stay.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configFiles } from '../../test/support/config-files.ts'
import { DEFAULTS, type Environment } from './settings.ts'

const { load, assertProblems } = configFiles()

function namesOf(content: object, env: Environment = {}) {
  const { upstreams, models, tiers } = load(content, env).settings
  return {
    upstreams: Object.keys(upstreams),
    models: Object.keys(models),
    tiers: Object.values(tiers).map((tier) => tier.models),
  }
}

const local = { base_url: 'http://127.0.0.1:9/v1', api_key_env: null }
const tiny = { targets: [{ upstream: 'local', model: 'tiny' }] }

test('a file that names only its own upstream and models needs nothing of OpenAI', () => {
  assert.deepEqual(namesOf({ upstreams: { local }, models: { tiny } }), {
    upstreams: ['local'],
    models: ['tiny'],
    tiers: [[], 'all', 'all', 'all'],
  })
})

test('a default model that the file replaces keeps what depends on it', () => {
  const { models, tiers } = load({ upstreams: { local }, models: { 'gpt-5': tiny } }).settings
  assert.deepEqual(models, { 'gpt-5': tiny, 'gpt-auto': { auto: [{ model: 'gpt-5' }] } })
  assert.deepEqual(tiers.user_free.models, ['gpt-auto'])
})

test('any OPENAI_ variable configures the upstream openai, and all defaults stay', () => {
  for (const env of [{ OPENAI_API_KEY: 'k' }, { OPENAI_BASE_URL: 'http://127.0.0.1:8/v1' }]) {
    assert.deepEqual(namesOf({ upstreams: { local }, models: { tiny } }, env), {
      upstreams: ['openai', 'local'],
      models: [...Object.keys(DEFAULTS.models), 'tiny'],
      tiers: Object.values(DEFAULTS.tiers).map((tier) => tier.models),
    })
  }
})

test('null removes a default model, and its name from gpt-auto and from the tiers', () => {
  const { models, tiers } = load({ models: { 'gpt-5-mini': null } }).settings
  assert.deepEqual(Object.keys(models), ['gpt-5', 'gpt-5.2', 'gpt-auto'])
  assert.deepEqual(models['gpt-auto'], { auto: [{ model: 'gpt-5' }] })
  assert.deepEqual(tiers.user_free.models, ['gpt-auto'])
})

test('gpt-auto goes with the last of its candidates', () => {
  const { models, tiers } = load({ models: { 'gpt-5': null, 'gpt-5-mini': null } }).settings
  assert.deepEqual(Object.keys(models), ['gpt-5.2'])
  assert.deepEqual(tiers.user_free.models, [])
})

test('null removes the upstream openai, whose key may be set for something else', () => {
  const file = { upstreams: { openai: null, local }, models: { tiny } }
  assert.deepEqual(namesOf(file, { OPENAI_API_KEY: 'k' }).upstreams, ['local'])
  assert.deepEqual(namesOf(file, { OPENAI_API_KEY: 'k' }).models, ['tiny'])
})

const gpt5 = { targets: [{ upstream: 'openai', model: 'gpt-5' }] }
const faults: readonly (readonly [name: string, file: object, ...says: readonly RegExp[]])[] = [
  [
    'a tier with a model that was removed',
    { models: { 'gpt-5': null }, tiers: { user_free: { models: ['gpt-5', 'gpt-auto'] } } },
    /^tiers\.user_free\.models: there is no model gpt-5$/,
  ],
  [
    'auto with a model that was removed',
    { models: { 'gpt-5': null, pick: { auto: [{ model: 'gpt-5' }] } } },
    /^models\.pick\.auto: gpt-5 must name a model that has targets$/,
  ],
  [
    'a target on the upstream openai, which has no key',
    { upstreams: { local }, models: { tiny, 'gpt-5': gpt5 } },
    /^upstreams\.openai\.api_key_env: the environment variable OPENAI_API_KEY is not set/,
  ],
  [
    'a target on the upstream openai, which is removed',
    { upstreams: { local, openai: null }, models: { tiny, mine: gpt5 } },
    /^models\.mine\.targets: there is no upstream openai$/,
  ],
  [
    'null for what is not a default',
    { upstreams: { local, other: null }, models: { tiny, 'gtp-5': null } },
    /^upstreams\.other: must be object$/,
    /^models\.gtp-5: must be object$/,
  ],
  [
    'an upstream and no model',
    { upstreams: { local } },
    /^models: no models are configured\. Add one, such as .*"upstream": "local"/,
  ],
  [
    'no model at all',
    { models: { 'gpt-5': null, 'gpt-5.2': null, 'gpt-5-mini': null } },
    /^models: no models are configured\. Add one/,
  ],
]

for (const [name, file, ...says] of faults) {
  test(`only what the file names is an error: ${name}`, () => assertProblems(file, {}, ...says))
}

test('with OPENAI_MODEL callers of every tier may use its own name', () => {
  const { models, tiers } = load({}, { OPENAI_BASE_URL: local.base_url, OPENAI_MODEL: 'tiny' }).settings
  assert.deepEqual(models.tiny, { targets: [{ upstream: 'openai', model: 'tiny' }] })
  assert.deepEqual(
    Object.values(tiers).map((tier) => tier.models),
    [['gpt-auto', 'gpt-5-mini', 'tiny'], 'all', 'all', 'all'],
  )
})

test('a tier whose models are all on another upstream does not get OPENAI_MODEL', () => {
  const file = { upstreams: { local }, models: { tiny }, tiers: { user_free: { models: ['tiny'] } } }
  const { models, tiers } = load(file, { OPENAI_API_KEY: 'k', OPENAI_MODEL: 'big' }).settings
  assert.deepEqual(models.big, { targets: [{ upstream: 'openai', model: 'big' }] })
  assert.deepEqual(tiers.user_free.models, ['tiny'])
})

test('OPENAI_MODEL adds no name that the file defines or removes, and none that cannot be a public name', () => {
  const env = { OPENAI_API_KEY: 'k' }
  const named = load({ upstreams: { local }, models: { tiny } }, { ...env, OPENAI_MODEL: 'tiny' })
  assert.deepEqual(named.settings.models.tiny, tiny)
  const removed = namesOf({ models: { 'gpt-5': null } }, { ...env, OPENAI_MODEL: 'gpt-5' })
  assert.ok(!removed.models.includes('gpt-5'))
  const spaced = namesOf({}, { ...env, OPENAI_MODEL: 'a model' })
  assert.deepEqual(spaced.models, Object.keys(DEFAULTS.models))
})

test('OPENAI_MODEL without a key changes nothing where no model uses the upstream openai', () => {
  const file = { upstreams: { local }, models: { 'gpt-5': tiny, 'gpt-5.2': tiny, 'gpt-5-mini': tiny } }
  assert.deepEqual(namesOf(file, { OPENAI_MODEL: 'one' }).models, Object.keys(DEFAULTS.models))
})
