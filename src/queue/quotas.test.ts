/** Tests which quota applies, when a node reads the sums, and what it counts in between. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { NO_CAPS, newJob } from '../../test/store-contract/fixtures.ts'
import { Tiers } from '../job/tier.ts'
import type { QuotaUse } from '../store/usage-store.ts'
import { bytesToStore, type QuotaLimits, Quotas, quotasOf } from './quotas.ts'

const of = 'tier user_go'
const limits = (openJobs: number | null, storedBytes: number | null = null): QuotaLimits => ({
  openJobs: openJobs === null ? null : { limit: openJobs, of },
  storedBytes: storedBytes === null ? null : { limit: storedBytes, of },
})

/** Returns quotas on a store that reports the use in `said`, and counts how often it was queried. */
function watched({ openJobs = 0, storedBytes = 0 }: Partial<QuotaUse> = {}) {
  const clock = new FakeClock()
  const said = { use: { openJobs, storedBytes }, asked: 0, fails: false }
  const store = {
    quotaUse: async () => {
      said.asked += 1
      if (said.fails) throw new Error('unavailable')
      return said.use
    },
  }
  const quotas = new Quotas({ store, clock })
  const reserve = async (limit: QuotaLimits, jobs = 1, bytes = 0, account = 'acme') =>
    quotas.reserve(account, limit, jobs, bytes)
  /** Reserves and accepts jobs. Returns whether the quota allows them. */
  const accept = async (limit: QuotaLimits, jobs = 1, bytes = 0, account = 'acme') => {
    const result = await reserve(limit, jobs, bytes, account)
    if (result === null) quotas.end(account, jobs, bytes, true)
    return result === null
  }
  return { clock, said, quotas, reserve, accept }
}

const TEN = limits(10)
const bytes = (limit: number) => limits(null, limit)

test("an account's own quota goes before its tier's, and either may be none", () => {
  const tier = { ...new Tiers([]).of('none'), name: 'user_go', maxOpenJobs: 5, maxStoredBytes: null }
  assert.deepEqual(quotasOf('acme', tier, NO_CAPS), limits(5))
  assert.deepEqual(quotasOf('acme', tier, { ...NO_CAPS, openJobs: 0, storedBytes: 9 }), {
    openJobs: { limit: 0, of: 'account acme' },
    storedBytes: { limit: 9, of: 'account acme' },
  })
  assert.equal(quotasOf('acme', tier, { ...NO_CAPS, openJobs: 'none' }), null)
})

test('what is open, accepted and being accepted counts, and a batch that does not fit is rejected as a whole', async () => {
  const { quotas, reserve } = watched({ openJobs: 3 })
  assert.equal(await reserve(TEN, 4), null)
  assert.equal(await reserve(TEN, 2), null)
  const full = await reserve(TEN, 2)
  assert.deepEqual(full, {
    kind: 'quota',
    unit: 'open jobs',
    account: 'acme',
    limit: TEN.openJobs,
    used: 9,
    added: 2,
  })
  quotas.end('acme', 4, 0, true)
  quotas.end('acme', 2, 0, false)
  assert.equal(await reserve(TEN, 3), null)
  assert.equal((await reserve(TEN))?.used, 10)
  assert.equal((await reserve(TEN, 10, 0, 'other'))?.used, 3)
})

test('stored bytes count alike', async () => {
  const { quotas, reserve } = watched({ storedBytes: 700 })
  assert.equal(await reserve(bytes(1000), 1, 300), null)
  const { unit, used, added } = (await reserve(bytes(1000), 1, 1)) ?? {}
  assert.deepEqual([unit, used, added], ['stored bytes', 1000, 1])
  quotas.end('acme', 1, 300, false)
  assert.equal(await reserve(bytes(1000), 1, 300), null)
})

test('a piece of a file counts once if the database includes it while it is still being stored', async () => {
  const { clock, said, quotas, reserve } = watched()
  assert.equal(await reserve(bytes(1000), 0, 500), null)
  said.use = { openJobs: 0, storedBytes: 500 }
  clock.advance(100)
  const next = reserve(bytes(1000), 0, 500)
  await nextTurn()
  quotas.end('acme', 0, 500, true)
  assert.equal(await next, null)
})

test('the sums are read again once a sixteenth of what is left is being accepted, of jobs and of bytes', async () => {
  for (const limit of [limits(160), bytes(160)]) {
    const { clock, said, quotas, reserve } = watched()
    assert.equal(await reserve(limit, 6, 6), null)
    clock.advance(100)
    const next = reserve(limit, 6, 6)
    await nextTurn()
    quotas.end('acme', 6, 6, true)
    assert.equal(await next, null)
    assert.equal(said.asked, 2)
  }
})

test('a job that has ended makes room at the next lookup, at the latest when there seems to be none', async () => {
  const { clock, said, accept } = watched({ openJobs: 9 })
  assert.equal(await accept(TEN), true)
  said.use = { openJobs: 2, storedBytes: 0 }
  assert.equal(await accept(TEN), false, 'the last lookup was just now')
  clock.advance(100)
  assert.equal(await accept(TEN), true)
  assert.equal(said.asked, 2)
})

test('what was accepted before a lookup began does not count twice', async () => {
  const { clock, said, reserve, accept } = watched()
  for (let job = 0; job < 5; job++) assert.equal(await accept(TEN), true)
  said.use = { openJobs: 5, storedBytes: 0 }
  clock.advance(5000)
  assert.equal(await reserve(TEN, 5), null)
  assert.ok(await reserve(TEN))
})

test('a lookup waits for what is being accepted, and what comes meanwhile waits for the lookup', async () => {
  const { clock, said, quotas, reserve } = watched()
  assert.equal(await reserve(TEN, 6), null)
  clock.advance(5000)
  const waiting = [reserve(TEN, 4), reserve(TEN, 1)]
  await nextTurn()
  assert.equal(said.asked, 1)
  // The jobs are stored before their reservations end, and must not count twice.
  said.use = { openJobs: 6, storedBytes: 0 }
  quotas.end('acme', 6, 0, true)
  const [four, one] = await Promise.all(waiting)
  assert.deepEqual([four, one?.used, said.asked], [null, 10, 2])
})

test('the sums are looked up once for a sixteenth of what is left, and every five seconds', async () => {
  const { clock, said, accept } = watched()
  const askedAfter = async (jobs: number, ms = 0) => {
    clock.advance(ms)
    for (let job = 0; job < jobs; job++) {
      clock.advance(1)
      assert.equal(await accept(limits(1600)), true)
    }
    return said.asked
  }
  assert.equal(await askedAfter(1, 1000), 1)
  assert.equal(await askedAfter(99, 100), 1)
  said.use = { openJobs: 100, storedBytes: 0 }
  assert.equal(await askedAfter(1), 2)
  assert.equal(await askedAfter(1, 4998), 2)
  assert.equal(await askedAfter(1), 3)
})

for (const [unit, limit, amount] of [
  ['open jobs', limits(1600), (count: number) => [count, 0]],
  ['stored bytes', bytes(1600), (count: number) => [0, count]],
] as const) {
  test(`${unit}: what was accepted counts from then on, and a sixteenth of what is left causes a lookup`, async () => {
    const { clock, said, accept } = watched()
    assert.equal(await accept(limit, ...amount(100)), true)
    assert.equal(await accept(limit, ...amount(1501)), false)
    assert.equal(said.asked, 1)
    const [openJobs = 0, storedBytes = 0] = amount(100)
    said.use = { openJobs, storedBytes }
    clock.advance(100)
    assert.deepEqual([await accept(limit, ...amount(1)), said.asked], [true, 2])
    clock.advance(100)
    assert.deepEqual([await accept(limit, ...amount(92)), said.asked], [true, 2])
    assert.deepEqual([await accept(limit, ...amount(1)), said.asked], [true, 3])
  })
}

test('a lookup that fails rejects the request, and the next one looks again', async () => {
  const { said, reserve } = watched()
  said.fails = true
  await assert.rejects(reserve(TEN), /unavailable/)
  said.fails = false
  assert.equal(await reserve(TEN), null)
})

test('the bytes of a job are those of its texts as they are stored', () => {
  const messages = [{ role: 'user', content: 'é' }] as const
  const responseFormat = { format: 'json', schema: { type: 'object', title: 'ü' } } as const
  const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{"a":"ß"}' }
  const texts = [messages, responseFormat, callback, messages, { format: 'text' }]
  assert.equal(
    bytesToStore([newJob({ messages, responseFormat, callback }), newJob({ messages })]),
    texts.reduce<number>((sum, text) => sum + Buffer.byteLength(JSON.stringify(text)), 0),
  )
})

test('with very many accounts, one whose jobs are being accepted is not forgotten', async () => {
  const { reserve, accept } = watched()
  assert.equal(await reserve(limits(2)), null)
  for (let other = 0; other < 10_000; other++) await accept(limits(2), 1, 0, `account ${other}`)
  assert.equal((await reserve(limits(2), 2))?.used, 1)
})
