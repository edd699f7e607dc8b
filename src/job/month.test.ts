/** Tests where months start and end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isMonth, monthEndsMs, monthOf } from './month.ts'

test('a month starts with its first millisecond in UTC and ends before the next one starts', () => {
  const december = Date.UTC(2026, 11, 1)
  assert.equal(monthOf(december - 1), '2026-11')
  assert.equal(monthOf(december), '2026-12')
  assert.equal(monthOf(Date.UTC(2027, 0, 1) - 1), '2026-12')
  assert.equal(monthEndsMs(december - 1), december)
  assert.equal(monthEndsMs(december), Date.UTC(2027, 0, 1))
})

test('which texts are months', () => {
  assert.deepEqual(
    ['2026-01', '2026-12', '2026-00', '2026-13', '2026-1', '26-01', '2026-01-01', ''].map(isMonth),
    [true, true, false, false, false, false, false, false],
  )
})
