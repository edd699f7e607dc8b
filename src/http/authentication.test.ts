import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { NO_CAPS } from '../../test/store-contract/fixtures.ts'
import { hashKey, makeKey } from '../accounts/key.ts'
import { Tiers } from '../job/tier.ts'
import type { KeyRecord } from '../store/account-store.ts'
import { createAuthentication, isCaller } from './authentication.ts'
import { HttpError } from './errors.ts'

const HOUR_MS = 3_600_000
const MAX_UNKNOWN = 3

function start(count: number) {
  const clock = new FakeClock()
  const keys = Array.from({ length: count }, () => makeKey())
  const records = new Map<string, KeyRecord>()
  for (const [at, key] of keys.entries()) {
    records.set(hashKey(key), {
      id: `key_${at}`,
      account: `account ${at}`,
      label: null,
      tier: 'user_go',
      createdAtMs: 0,
      expiresAtMs: null,
      revokedAtMs: null,
      usedAtMs: null,
      suspendedAtMs: null,
      webhookUrl: null,
      caps: NO_CAPS,
    })
  }
  const hashes = [...records.keys()].sort()
  const noted: [string, number][] = []
  const { callerOf } = createAuthentication({
    store: {
      findKey: async (hash) => records.get(hash) ?? null,
      listKeyHashes: async (after, limit) => hashes.filter((hash) => hash > after).slice(0, limit),
      noteKeyUses: async (keyIds, hourMs) => {
        for (const [hash, record] of records) {
          if (!keyIds.includes(record.id)) continue
          noted.push([record.id, hourMs])
          records.set(hash, { ...record, usedAtMs: hourMs })
        }
      },
    },
    tiers: new Tiers([]),
    clock,
    maxUnknownKeys: MAX_UNKNOWN,
    onRejected: () => {},
    onError: (error) => assert.fail(String(error)),
  })
  const send = async (key: string) => callerOf({ headers: { 'x-api-key': key }, ip: '192.0.2.1' })
  return { clock, keys, hashes, records, noted, send }
}

test('where too many unknown keys come from, every existing key is served, however many there are', async () => {
  const { keys, hashes, send } = start(10_050)
  for (let sent = 0; sent < MAX_UNKNOWN; sent++) assert.equal(await send(makeKey()), 'unknown')
  await assert.rejects(send(makeKey()), (error) => error instanceof HttpError && error.status === 429)
  const byHash = new Map(keys.map((key) => [hashKey(key), key]))
  for (const hash of [hashes[0], hashes[9999], hashes[10_000], hashes.at(-1)]) {
    const caller = await send(byHash.get(hash ?? '') ?? '')
    assert.ok(isCaller(caller), `${hash}`)
  }
})

test('the last use of a key is noted once an hour', async () => {
  const { clock, keys, noted, send } = start(2)
  const startedMs = clock.nowMs()
  const hourOf = (ms: number) => Math.floor(ms / HOUR_MS) * HOUR_MS
  const useAll = async () => {
    for (const key of keys) assert.ok(isCaller(await send(key)))
    await setImmediate()
  }
  // Each key is used every minute for three hours.
  for (let minute = 0; minute < 180; minute++) {
    await useAll()
    clock.advance(60_000)
  }
  const hours = [...new Set(Array.from({ length: 180 }, (_, minute) => hourOf(startedMs + minute * 60_000)))]
  for (const id of ['key_0', 'key_1']) {
    assert.deepEqual(
      noted.filter(([noteOf]) => noteOf === id).map(([, hourMs]) => hourMs),
      hours,
    )
  }
})
