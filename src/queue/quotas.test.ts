/** Quotas: which quota applies, when a node reads the sums, and what it counts in between. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { NO_CAPS, newJob } from '../../test/store-contract/fixtures.ts'
import { Tiers } from '../job/tier.ts'
import type { QuotaUse } from '../store/usage-store.ts'
import { bytesToStore, type QuotaLimits, type QuotaReached, Quotas, quotasOf } from './quotas.ts'

const of = 'tier user_go'
const limits = (openJobs: number | null, storedBytes: number | null = null): QuotaLimits => ({
  openJobs: openJobs === null ? null : { limit: openJobs, of },
  storedBytes: storedBytes === null ? null : { limit: storedBytes, of },
})

/** Quotas on a store that returns the use in `said`, and counts how often it was queried. */
function watched({ openJobs = 0, storedBytes = 0 }: Partial<QuotaUse> = {}) {
  const clock = new FakeClock()
  const said = { use: { openJobs, storedBytes }, asked: 0 }
  const store = {
    quotaUse: async () => {
      said.asked += 1
      return said.use
    },
  }
  const quotas = new Quotas({ store, clock })
  const reserve = async (limit: QuotaLimits, jobs = 1, bytes = 0, account = 'acme') =>
    quotas.reserve(account, limit, jobs, bytes)
  return { clock, said, quotas, reserve }
}

function reached(result: QuotaReached | null): QuotaReached {
  assert.ok(result)
  return result
}

test("an account's own quota goes before its tier's, and either may be none", () => {
  const tier = { ...new Tiers([]).of('none'), name: 'user_go', maxOpenJobs: 5, maxStoredBytes: null }
  assert.deepEqual(quotasOf('acme', tier, NO_CAPS), { openJobs: { limit: 5, of }, storedBytes: null })
  assert.deepEqual(quotasOf('acme', tier, { ...NO_CAPS, openJobs: 0, storedBytes: 9 }), {
    openJobs: { limit: 0, of: 'account acme' },
    storedBytes: { limit: 9, of: 'account acme' },
  })
  assert.equal(quotasOf('acme', tier, { ...NO_CAPS, openJobs: 'none' }), null)
})

test('what is open, accepted and being accepted counts, and a batch that does not fit is rejected as a whole', async () => {
  const { quotas, reserve } = watched({ openJobs: 3 })
  const ten = limits(10)
  assert.equal(await reserve(ten, 4), null)
  assert.equal(await reserve(ten, 2), null)
  const { used, added, unit, limit, account } = reached(await reserve(ten, 2))
  assert.deepEqual([unit, account, used, added, limit.limit], ['open jobs', 'acme', 9, 2, 10])
  quotas.end('acme', 4, 0, true)
  quotas.end('acme', 2, 0, false)
  assert.equal(await reserve(ten, 3), null)
  assert.equal(reached(await reserve(ten)).used, 10)
  assert.equal(await reserve(ten, 10, 0, 'other').then((result) => result?.used), 3)
})

test('stored bytes count alike', async () => {
  const { quotas, reserve } = watched({ storedBytes: 700 })
  const limit = limits(null, 1000)
  assert.equal(await reserve(limit, 1, 300), null)
  const { unit, used, added } = reached(await reserve(limit, 1, 1))
  assert.deepEqual([unit, used, added], ['stored bytes', 1000, 1])
  quotas.end('acme', 1, 300, false)
  assert.equal(await reserve(limit, 1, 300), null)
})

test('a piece of a file counts once if the database includes it while it is still being stored', async () => {
  const { clock, said, quotas, reserve } = watched()
  const limit = limits(null, 1000)
  assert.equal(await reserve(limit, 0, 500), null)
  said.use = { openJobs: 0, storedBytes: 500 }
  clock.advance(100)
  const next = reserve(limit, 0, 500)
  await nextTurn()
  quotas.end('acme', 0, 500, true)
  assert.equal(await next, null)
})

test('the sums are read again once a sixteenth of what is left is being accepted, of jobs and of bytes', async () => {
  for (const limit of [limits(160), limits(null, 160)]) {
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
  const { clock, said, quotas, reserve } = watched({ openJobs: 9 })
  const ten = limits(10)
  assert.equal(await reserve(ten), null)
  quotas.end('acme', 1, 0, true)
  said.use = { openJobs: 2, storedBytes: 0 }
  assert.ok(await reserve(ten), 'the last look-up was just now')
  clock.advance(100)
  assert.equal(await reserve(ten), null)
  assert.equal(said.asked, 2)
})

test('what was accepted before a lookup began does not count twice', async () => {
  const { clock, said, quotas, reserve } = watched()
  const ten = limits(10)
  for (let job = 0; job < 5; job++) {
    assert.equal(await reserve(ten), null)
    quotas.end('acme', 1, 0, true)
  }
  said.use = { openJobs: 5, storedBytes: 0 }
  clock.advance(5000)
  assert.equal(await reserve(ten, 5), null)
  assert.ok(await reserve(ten))
})

test('a lookup waits for what is being accepted, and what comes meanwhile waits for the lookup', async () => {
  const { clock, said, quotas, reserve } = watched()
  const ten = limits(10)
  assert.equal(await reserve(ten, 6), null)
  clock.advance(5000)
  const waiting = [reserve(ten, 4), reserve(ten, 1)]
  await new Promise(setImmediate)
  assert.equal(said.asked, 1)
  // The jobs are stored before their reservations end, and must not count twice.
  said.use = { openJobs: 6, storedBytes: 0 }
  quotas.end('acme', 6, 0, true)
  const [four, one] = await Promise.all(waiting)
  assert.equal(four, null)
  assert.equal(reached(one ?? null).used, 10)
  assert.equal(said.asked, 2)
})

test('the sums are looked up once for a sixteenth of what is left, and every five seconds', async () => {
  const { clock, said, quotas, reserve } = watched()
  const limit = limits(1600)
  const create = async (times: number) => {
    for (let job = 0; job < times; job++) {
      clock.advance(1)
      assert.equal(await reserve(limit), null)
      quotas.end('acme', 1, 0, true)
    }
  }
  clock.advance(1000)
  await create(1)
  clock.advance(100)
  await create(99)
  assert.equal(said.asked, 1)
  said.use = { openJobs: 100, storedBytes: 0 }
  await create(1)
  assert.equal(said.asked, 2)
  clock.advance(4998)
  await create(1)
  assert.equal(said.asked, 2)
  await create(1)
  assert.equal(said.asked, 3)
})

test('a lookup that fails rejects the request, and the next one looks again', async () => {
  const clock = new FakeClock()
  let fails = true
  const store = {
    quotaUse: async () => {
      if (fails) throw new Error('unavailable')
      return { openJobs: 0, storedBytes: 0 }
    },
  }
  const quotas = new Quotas({ store, clock })
  await assert.rejects(async () => quotas.reserve('acme', limits(1), 1, 0), /unavailable/)
  fails = false
  assert.equal(await quotas.reserve('acme', limits(1), 1, 0), null)
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

for (const unit of ['open jobs', 'stored bytes'] as const) {
  const amount = (count: number): [jobs: number, bytes: number] =>
    unit === 'open jobs' ? [count, 0] : [0, count]
  const limit = unit === 'open jobs' ? limits(1600) : limits(null, 1600)

  test(`${unit}: what was accepted counts from then on, and a sixteenth of what is left causes a lookup`, async () => {
    const { clock, said, quotas, reserve } = watched()
    const accept = async (count: number) => {
      const result = await reserve(limit, ...amount(count))
      if (result === null) quotas.end('acme', ...amount(count), true)
      return result === null
    }
    assert.equal(await accept(100), true)
    assert.equal(await accept(1501), false)
    assert.equal(said.asked, 1)
    clock.advance(100)
    const [openJobs, storedBytes] = amount(100)
    said.use = { openJobs, storedBytes }
    assert.equal(await accept(1), true)
    assert.equal(said.asked, 2)
    clock.advance(100)
    assert.equal(await accept(92), true)
    assert.equal(said.asked, 2)
    assert.equal(await accept(1), true)
    assert.equal(said.asked, 3)
  })
}

test('with very many accounts, one whose jobs are being accepted is not forgotten', async () => {
  const { quotas, reserve } = watched()
  const two = limits(2)
  assert.equal(await reserve(two), null)
  for (let other = 0; other < 10_000; other++) {
    assert.equal(await reserve(two, 1, 0, `account ${other}`), null)
    quotas.end(`account ${other}`, 1, 0, true)
  }
  assert.equal(reached(await reserve(two, 2)).used, 1)
})
