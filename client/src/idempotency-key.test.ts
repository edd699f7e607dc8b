/** Tests the Idempotency-Keys that the client generates. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newIdempotencyKey } from './idempotency-key.ts'

test('a key has 32 hexadecimal digits, and begins with the time', () => {
  const atMs = Date.UTC(2026, 0, 2, 3, 4, 5)
  const key = newIdempotencyKey(atMs)
  assert.match(key, /^[0-9a-f]{32}$/)
  assert.equal(Number.parseInt(key.slice(0, 12), 16), atMs)
  assert.ok(newIdempotencyKey(atMs + 1) > key)
})

test('keys of one moment differ', () => {
  const keys = Array.from({ length: 1000 }, () => newIdempotencyKey(1))
  assert.equal(new Set(keys).size, 1000)
})
