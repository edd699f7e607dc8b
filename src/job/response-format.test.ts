import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { jobFingerprint } from './fingerprint.ts'
import { namedOption } from './options.ts'
import {
  batchOf,
  formatParts,
  splitMetadata,
  splitOptions,
  splitRecord,
  TEXT_JSON,
  traceparentOf,
  withBatch,
  withMetadata,
  withOptions,
  withRecord,
  withTraceparent,
} from './response-format.ts'

const FORMATS = [
  TEXT_JSON,
  '{"format":"json"}',
  '{"format":"json","schema":{"type":"object"}}',
  '{"schema":{"title":"}\\"{"},"format":"json"}',
]
const RECORD = '{"metadata":{"a":"},\\"{[","b":"\\\\"},"format":{"name":"x"}}'

const fingerprintOf = (responseFormatJson: string) =>
  jobFingerprint({ account: 'a', model: 'm', messagesJson: '[]', responseFormatJson })

const text = fc.string({ unit: fc.constantFrom('a', '"', '\\', '}', '{', ',', '\n', 'é') })
const someOptions = fc.record(
  {
    temperature: fc.constantFrom(0, 0.2, 1e-7),
    max_tokens: fc.nat(),
    stop: fc.oneof(text, fc.array(text, { minLength: 1, maxLength: 4 })),
    reasoning_effort: fc.constantFrom('low' as const),
  },
  { requiredKeys: [], noNullPrototype: true },
)
const someFormat = fc.oneof(
  fc.constantFrom(...FORMATS),
  text.map((description) => JSON.stringify({ format: 'json', schema: { description, options: {} } })),
)

test('a format, options and a record share a text, and are taken apart as they were put together', () => {
  fc.assert(
    fc.property(someOptions, someFormat, (options, format) => {
      const given = Object.keys(options).length > 0 ? options : null
      const rest = withOptions(format, options)
      assert.deepEqual(JSON.parse(rest), { ...(given && { options }), ...JSON.parse(format) })
      const { formatJson, optionsJson } = splitOptions(rest)
      assert.deepEqual([formatJson, optionsJson && JSON.parse(optionsJson)], [format, given])
      assert.deepEqual(splitRecord(rest), { recordJson: null, restJson: rest })
      const stored = withRecord(rest, RECORD)
      assert.deepEqual(splitRecord(stored), { recordJson: RECORD, restJson: rest })
      assert.deepEqual(splitOptions(stored), splitOptions(rest))
      assert.deepEqual(JSON.parse(stored), { request: JSON.parse(RECORD), ...JSON.parse(rest) })
      for (const each of [rest, stored]) assert.deepEqual(formatParts(each), formatParts(format))
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

test('a trace is found beside everything else that a job stores, and changes nothing else', () => {
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  for (const format of FORMATS) {
    const others = withRecord(withOptions(format, { temperature: 0.5 }), RECORD)
    const prints = [
      others,
      withTraceparent(others, trace),
      withMetadata(withTraceparent(others, trace), { a: '}' }),
    ]
    for (const [index, stored] of prints.entries()) {
      assert.equal(traceparentOf(stored), index === 0 ? null : trace)
      assert.equal(splitMetadata(stored).othersJson, others)
      assert.deepEqual(splitRecord(stored), splitRecord(others))
      assert.deepEqual(formatParts(stored), formatParts(format))
    }
    assert.equal(new Set(prints.map(fingerprintOf)).size, 1)
  }
  assert.equal(traceparentOf(withTraceparent(TEXT_JSON, trace)), trace)
})

test('a job knows the batch whose line it is, beside what else is remembered of its request; its fingerprint does not change', () => {
  const batch = { id: 'x', custom_id: '"}' }
  for (const format of FORMATS) {
    for (const record of [undefined, RECORD]) {
      const recordJson = withBatch(record, batch)
      const stored = withMetadata(withRecord(format, recordJson), { a: '}' })
      assert.deepEqual(batchOf(stored), batch)
      assert.deepEqual(JSON.parse(recordJson), { batch, ...JSON.parse(record ?? '{}') })
      assert.equal(fingerprintOf(stored), fingerprintOf(format))
    }
    assert.equal(batchOf(format), null)
    assert.equal(batchOf(withRecord(format, RECORD)), null)
  }
})
