/**
 * Tests the limit for API keys that do not exist: it counts by the caller's address, and applies before the database is
 * queried.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { makeKey } from '../../src/accounts/key.ts'
import type { Store } from '../../src/store/store.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { completed, granted, refused } from './expect.ts'
import { startStage } from './stage.ts'

const ME = '/api/v1/me'
const MESSAGES = '/api/v1/messages'
const MAX = 5
const MINUTE_MS = 60_000

async function start(t: TestContext, settings: object = {}) {
  const { parley, clock } = await startStage(t, {
    settings: { limits: { unknown_keys_per_minute: MAX }, ...settings },
  })
  const from = (address: string) => ({ 'x-forwarded-for': address })
  const guess = (headers = {}) => parley.get(ME, makeKey(), headers)
  const guessTooOften = async (headers = {}) => {
    for (let sent = 0; sent < MAX; sent++) refused(await guess(headers), 401)
  }
  return { parley, clock, from, guess, guessTooOften }
}

/** Returns an object whose `count` grows with each query for a key. */
function watchLookUps(store: Store): { count: number } {
  const lookUps = { count: 0 }
  const { findKey } = store
  Object.assign(store, {
    findKey: (hash: string) => {
      lookUps.count += 1
      return findKey(hash)
    },
  })
  return lookUps
}

onEachStore(() => {
  test('too many unknown keys: 429 that names the limit, for a minute, and the database is not asked', async (t) => {
    const { parley, clock, guess, guessTooOften } = await start(t)
    const lookUps = watchLookUps(parley.store)
    await guessTooOften()
    assert.equal(lookUps.count, MAX)
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
    assert.equal(lookUps.count, MAX)
    assert.match((await parley.get('/metrics')).text, /^parley_unknown_key_rejections_total 21$/m)
    clock.advance(MINUTE_MS)
    refused(await guess(), 401)
  })

  test('a key that exists is never rejected: in use, new, never used before, revoked or expired', async (t) => {
    const { parley, clock, guess, guessTooOften } = await start(t)
    const [used, unused, revoked] = [await parley.key(), await parley.key(), await parley.key()]
    const { key_id } = granted(await parley.get(ME, revoked), 200)
    granted(await parley.get(ME, used), 200)
    await guessTooOften()
    refused(await guess(), 429)
    for (const key of [used, unused]) {
      granted(await parley.get(ME, key), 200)
      completed(await parley.post(MESSAGES, job(), key))
    }
    await parley.store.revokeKey(key_id, clock.nowMs())
    clock.advance(2000)
    // A revoked key existed, so its use is not a guess and does not count.
    refused(await parley.get(ME, revoked), 401)
    refused(await parley.get(ME, 'malformed'), 401)
    refused(await parley.get(ME), 401)
    const late = await parley.key('user_go', 'late')
    clock.advance(2000)
    refused(await guess(), 429)
    granted(await parley.get(ME, late), 200)
    granted(await parley.get(ME, used), 200)
  })

  test('malformed keys, and one unknown key many times at once, are no guesses', async (t) => {
    const { parley, guess } = await start(t)
    for (let sent = 0; sent < 3 * MAX; sent++) refused(await parley.get(ME, `prl_${sent}`), 401)
    const one = makeKey()
    for (let sent = 0; sent < 3 * MAX; sent++) refused(await parley.get(ME, one), 401)
    refused(await guess(), 401)
  })

  test('behind a trusted proxy the address is the caller’s own, and otherwise the proxy’s', async (t) => {
    const trusting = await start(t, { trust_proxy: true })
    const [one, other] = [trusting.from('203.0.113.7'), trusting.from('203.0.113.8')]
    await trusting.guessTooOften(one)
    refused(await trusting.guess(one), 429)
    refused(await trusting.guess(other), 401)
    const suspicious = await start(t)
    await suspicious.guessTooOften(one)
    refused(await suspicious.guess(other), 429)
  })
})
