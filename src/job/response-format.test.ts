import assert from 'node:assert/strict'
import test from 'node:test'
import { jobFingerprint } from './fingerprint.ts'
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

test('a format, options and a record are taken apart as they were put together', () => {
  for (const format of FORMATS) {
    for (const options of [{}, { temperature: 0.5, stop: ['}', '"'] }]) {
      const rest = withOptions(format, options)
      const stored = withRecord(rest, RECORD)
      assert.deepEqual(splitRecord(stored), { recordJson: RECORD, restJson: rest })
      assert.deepEqual(splitRecord(rest), { recordJson: null, restJson: rest })
      assert.deepEqual(splitOptions(stored), splitOptions(rest))
      assert.deepEqual(formatParts(stored), formatParts(format))
      assert.deepEqual(JSON.parse(stored), { request: JSON.parse(RECORD), ...JSON.parse(rest) })
    }
  }
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
    const fingerprints = prints.map((responseFormatJson) =>
      jobFingerprint({ account: 'a', model: 'm', messagesJson: '[]', responseFormatJson }),
    )
    assert.equal(new Set(fingerprints).size, 1)
  }
  assert.equal(traceparentOf(withTraceparent(TEXT_JSON, trace)), trace)
})

test('a job knows the batch whose line it is, beside what else is remembered of its request; its fingerprint does not change', () => {
  const batch = { id: 'x', custom_id: '"}' }
  const print = (responseFormatJson: string) =>
    jobFingerprint({ account: 'a', model: 'm', messagesJson: '[]', responseFormatJson })
  for (const format of FORMATS) {
    for (const record of [undefined, RECORD]) {
      const recordJson = withBatch(record, batch)
      const stored = withMetadata(withRecord(format, recordJson), { a: '}' })
      assert.deepEqual(batchOf(stored), batch)
      assert.deepEqual(JSON.parse(recordJson), { batch, ...JSON.parse(record ?? '{}') })
      assert.equal(print(stored), print(format))
    }
    assert.equal(batchOf(format), null)
    assert.equal(batchOf(withRecord(format, RECORD)), null)
  }
})
