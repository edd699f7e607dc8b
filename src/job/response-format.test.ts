import assert from 'node:assert/strict'
import test from 'node:test'
import {
  formatParts,
  splitOptions,
  splitRecord,
  TEXT_JSON,
  withOptions,
  withRecord,
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
