import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { namedOption } from './options.ts'
import { formatParts, splitOptions, TEXT_JSON, withOptions } from './response-format.ts'

const text = fc.string({ unit: fc.constantFrom('a', '"', '\\', '}', '{', ',', '\n', 'é') })
const options = fc.record(
  {
    temperature: fc.constantFrom(0, 0.2, 1e-7),
    max_tokens: fc.nat(),
    stop: fc.oneof(text, fc.array(text, { minLength: 1, maxLength: 4 })),
    reasoning_effort: fc.constantFrom('low' as const),
  },
  { requiredKeys: [], noNullPrototype: true },
)
const format = fc.oneof(
  fc.constant({ format: 'text' }),
  fc.constant({ format: 'json' }),
  text.map((description) => ({ format: 'json', schema: { description, options: {} } })),
)

test('options and response_format share a text, and come out of it as they were', () => {
  fc.assert(
    fc.property(options, format, (given, wanted) => {
      const formatJson = JSON.stringify(wanted)
      const stored = withOptions(formatJson, given)
      assert.deepEqual(
        JSON.parse(stored),
        Object.keys(given).length > 0 ? { options: given, ...wanted } : wanted,
      )
      const parts = splitOptions(stored)
      assert.equal(parts.formatJson, formatJson)
      assert.deepEqual(
        parts.optionsJson && JSON.parse(parts.optionsJson),
        Object.keys(given).length > 0 ? given : null,
      )
      assert.deepEqual(formatParts(stored), formatParts(formatJson))
    }),
  )
})

test('equal options are the same text in any order, and no options leave the text as it is', () => {
  assert.equal(
    withOptions(TEXT_JSON, { seed: 1, temperature: 0 }),
    withOptions(TEXT_JSON, { temperature: 0, seed: 1 }),
  )
  assert.equal(withOptions(TEXT_JSON, {}), TEXT_JSON)
  assert.equal(withOptions(TEXT_JSON, { stop: [] }), TEXT_JSON)
})

test('the option that an error names is one that the job has', () => {
  const json = '{"temperature":2,"max_tokens":5}'
  assert.equal(namedOption(json, "Unknown parameter: 'max_completion_tokens'."), 'max_tokens')
  assert.equal(namedOption(json, 'seed must be positive; temperature is 2'), 'temperature')
  assert.equal(namedOption(json, 'seed must be positive'), null)
})
