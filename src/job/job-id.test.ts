import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { isJobId, jobIdMaker, leastJobId, readJobId } from './job-id.ts'

const hex = (bytes: number) => randomBytes(bytes).toString('hex')

test('identifiers are UUIDs of version 7 that carry the time', () => {
  const id = jobIdMaker({ nowMs: () => 0x0123456789ab }, hex)()
  assert.match(id, /^01234567-89ab-7000-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.ok(isJobId(id))
})

test('identifiers grow when the clock stands still or goes back', () => {
  let now = 1_700_000_000_000
  const make = jobIdMaker({ nowMs: () => now }, hex)
  const ids = Array.from({ length: 10_000 }, () => make())
  now -= 3_600_000
  ids.push(...Array.from({ length: 10_000 }, () => make()))
  now += 7_200_000
  ids.push(make())
  assert.deepEqual(ids, [...ids].sort())
  assert.equal(new Set(ids).size, ids.length)
})

test('the least identifier of a time separates what was created earlier from what is created later', () => {
  let now = 1_700_000_000_000
  const make = jobIdMaker({ nowMs: () => now }, hex)
  const before = make()
  now += 1
  const bound = leastJobId(now)
  assert.ok(before < bound && bound <= make())
})

test('an identifier is read in upper, lower and mixed case, and is one in lower case only', () => {
  const id = '019a5d3e-8f43-7abc-9def-2f54b7a1c0de'
  for (const given of [id, id.toUpperCase(), id.replace('abc', 'AbC')]) assert.equal(readJobId(given), id)
  assert.ok(!isJobId(id.toUpperCase()))
  // `toLowerCase` turns the Kelvin sign into the Latin letter `k`.
  const others = [id.replace('a', '\u212a'), id.slice(1), id.replaceAll('-', '')]
  for (const given of ['', `${id} `, `{${id}}`, ...others]) assert.equal(readJobId(given), null)
})

test('other texts are not identifiers', () => {
  const almost = ['01234567-89ab-7000-8000-00000000000', `${leastJobId(1)}\n`]
  for (const text of ['', 'x', '../etc', 'A'.repeat(36), ...almost]) assert.equal(isJobId(text), false, text)
})
