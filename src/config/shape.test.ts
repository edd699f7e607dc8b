import assert from 'node:assert/strict'
import test from 'node:test'
import { Ajv } from 'ajv'
import { isObject } from '../json-object.ts'
import { DEFAULTS, settingsSchema, UPSTREAM_DEFAULTS } from './settings.ts'
import { shapeProblems } from './shape.ts'

const UNDERSTOOD = new Set([
  ...['type', 'const', 'anyOf', 'minimum', 'maximum', 'exclusiveMinimum', 'minLength', 'minItems', 'items'],
  ...['required', 'properties', 'patternProperties', 'additionalProperties', 'description'],
])
/** The settings are valid and contain an entry of every kind. */
const FULL = {
  ...DEFAULTS,
  $schema: 'x',
  models: { a: { targets: [{ upstream: 'u', model: 'm' }] }, b: { auto: [{ model: 'a', up_to_tokens: 5 }] } },
  upstreams: {
    u: { ...UPSTREAM_DEFAULTS, headers: { a: 'x', b: { env: 'B' } }, query: { c: 'd' }, body: { e: [1] } },
  },
}
const VALUES = [null, true, 'auto', '', -1, 0, 0.5, 1, 2 ** 40, [], [''], [{}], {}, { 'a b': 1 }, { env: '' }]

const satisfies = new Ajv({ strictTypes: false }).compile(settingsSchema)

test('the table uses no keyword that the check does not know', () => {
  for (const keyword of keywordsOf(settingsSchema))
    assert.ok(UNDERSTOOD.has(keyword), `${keyword}: check it in settingsProblems (load.ts)`)
})

test('settings with any one value replaced, removed or added have problems exactly if Ajv finds one', () => {
  assert.deepEqual(shapeProblems(settingsSchema, FULL), [])
  let [valid, invalid] = [0, 0]
  for (const changed of variantsOf(FULL)) {
    const fits = satisfies(changed)
    const problems = shapeProblems(settingsSchema, changed)
    assert.equal(problems.length === 0, fits, JSON.stringify([satisfies.errors, problems]))
    if (fits) valid++
    else invalid++
  }
  assert.ok(valid > 300 && invalid > 1500, `${valid} ${invalid}`)
})

test('each problem names its setting', () => {
  const { port: _, ...rest } = { ...DEFAULTS, hots: 1, trust_proxy: 5, cors: { origins: ['a', 7] } }
  const jobs = { ...DEFAULTS.jobs, concurrency: 0, run_timeout_seconds: 0, drain_seconds: '5' }
  const tiers = { ...DEFAULTS.tiers, user_go: { ...DEFAULTS.tiers.user_go, over_cap: 'wit' } }
  const problems = shapeProblems(settingsSchema, { ...rest, host: '', jobs, tiers })
  const sentences = problems.map(({ names, problem }) => `${names.join('.')}: ${problem}`)
  assert.deepEqual(sentences, [
    'port: is required',
    'host: must not have fewer than 1 characters',
    'trust_proxy: must be boolean',
    'trust_proxy: must be string',
    'cors.origins.1: must be string',
    'tiers.user_go.over_cap: must be one of reject, wait; did you mean wait?',
    'jobs.concurrency: must be >= 1',
    'jobs.concurrency: must be null',
    'jobs.run_timeout_seconds: must be > 0',
    'jobs.drain_seconds: must be number',
    'hots: unknown setting',
  ])
})

function keywordsOf(node: unknown): string[] {
  if (Array.isArray(node)) return node.flatMap(keywordsOf)
  if (!isObject(node)) return []
  return Object.entries(node).flatMap(([keyword, value]) =>
    keyword === 'properties' || keyword === 'patternProperties'
      ? [keyword, ...Object.values(value as object).flatMap(keywordsOf)]
      : [keyword, ...keywordsOf(value)],
  )
}

function* variantsOf(value: unknown): Generator<unknown> {
  yield* VALUES
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries())
      for (const other of variantsOf(item)) yield value.with(at, other)
  } else if (isObject(value)) {
    yield { ...value, 'added.by/it': 1 }
    for (const [name, member] of Object.entries(value)) {
      const { [name]: _, ...others } = value
      yield others
      for (const other of variantsOf(member)) yield { ...value, [name]: other }
    }
  }
}
