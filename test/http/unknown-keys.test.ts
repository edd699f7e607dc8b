/**
 * Tests the limit for API keys that do not exist: it counts by the caller's address, and applies before the database is
 * queried.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { makeKey } from '../../src/accounts/key.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { callerOf, ME, MESSAGES, startScene } from './caller.ts'
import { completed, refused } from './expect.ts'

const MAX = 5
const MINUTE_MS = 60_000

async function start(t: TestContext, settings: object = {}) {
  const limits = { unknown_keys_per_minute: MAX }
  const scene = await startScene(t, { settings: { limits, ...settings } })
  const guess = (address?: string) =>
    scene.parley.get(ME, makeKey(), address ? { 'x-forwarded-for': address } : {})
  const guessTooOften = async (address?: string) => {
    for (let sent = 0; sent < MAX; sent++) refused(await guess(address), 401)
  }
  return { ...scene, guess, guessTooOften }
}

onEachStore(() => {
  test('too many unknown keys: 429 that names the limit, for a minute, and the database is not asked', async (t) => {
    const { parley, clock, guess, guessTooOften } = await start(t)
    const { mock } = t.mock.method(parley.store, 'findKey')
    await guessTooOften()
    assert.equal(mock.callCount(), MAX)
    for (let more = 0; more < 20; more++) {
      const answer = await guess()
      const { message, details } = refused(answer, 429)
      assert.equal(message, 'Too many unknown API keys.')
      assert.match(
        details ?? '',
        /^An address may send at most 5 unknown keys per minute .*\(limits\.unknown_keys_per_minute\)/,
      )
      assert.equal(answer.headers.get('retry-after'), '60')
    }
    refused(await parley.post(MESSAGES, job(), makeKey()), 429)
    assert.equal(mock.callCount(), MAX)
    assert.match((await parley.get('/metrics')).text, /^parley_unknown_key_rejections_total 21$/m)
    clock.advance(MINUTE_MS)
    refused(await guess(), 401)
  })

  test('a key that exists is never rejected: in use, new, never used before, revoked or expired', async (t) => {
    const { parley, caller: used, clock, guess, guessTooOften } = await start(t)
    const [unused, revoked] = [await callerOf(parley), await callerOf(parley)]
    const { key_id } = await revoked.me()
    await used.me()
    await guessTooOften()
    refused(await guess(), 429)
    for (const caller of [used, unused]) {
      await caller.me()
      completed(await caller.create())
    }
    await parley.store.revokeKey(key_id, clock.nowMs())
    clock.advance(2000)
    // A revoked key existed, so its use is not a guess and does not count.
    for (const key of [revoked.key, 'malformed', undefined]) refused(await parley.get(ME, key), 401)
    const late = await callerOf(parley, 'user_go', 'late')
    clock.advance(2000)
    refused(await guess(), 429)
    await late.me()
    await used.me()
  })

  test('malformed keys, and one unknown key many times at once, are no guesses', async (t) => {
    const { parley, guess } = await start(t)
    const one = makeKey()
    for (let sent = 0; sent < 3 * MAX; sent++) {
      for (const key of [`prl_${sent}`, one]) refused(await parley.get(ME, key), 401)
    }
    refused(await guess(), 401)
  })

  test('behind a trusted proxy the address is the caller’s own, and otherwise the proxy’s', async (t) => {
    const [one, other] = ['203.0.113.7', '203.0.113.8']
    const trusting = await start(t, { trust_proxy: true })
    await trusting.guessTooOften(one)
    refused(await trusting.guess(one), 429)
    refused(await trusting.guess(other), 401)
    const suspicious = await start(t)
    await suspicious.guessTooOften(one)
    refused(await suspicious.guess(other), 429)
  })
})
