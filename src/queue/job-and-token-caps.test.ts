/** Caps: which cap applies, and how jobs count that the usage in the database does not include yet. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import type { Tier } from '../job/tier.ts'
import type { Used } from '../store/usage-store.ts'
import { type Caps, capsOf, JobAndTokenCaps, type Reserved } from './job-and-token-caps.ts'

const tier = (maxMonthlyJobs: number | null, maxMonthlyTokens: number | null): Tier => ({
  name: 'user_go',
  models: new Set(),
  maxBatchJobs: 10,
  readsPerMinute: 600,
  maxOutputTokens: null,
  priorities: new Set(),
  createsPerMinute: null,
  maxInputTokens: 64_000,
  weight: 2,
  maxMonthlyJobs,
  maxMonthlyTokens,
  maxMonthlyCost: null,
  overCap: 'reject',
  maxOpenJobs: null,
  maxStoredBytes: null,
  maxFiles: 1,
  maxBatchLines: 1,
  maxFileBytes: 1,
})

test("an account's own cap goes before its tier's, and either may be none", () => {
  const own = (monthlyJobs: number | 'none' | null, monthlyTokens: number | 'none' | null = null) => ({
    monthlyJobs,
    monthlyTokens,
  })
  assert.equal(capsOf('acme', tier(null, null), own(null)), null)
  assert.deepEqual(capsOf('acme', tier(5, null), own(null)), {
    jobs: { limit: 5, of: 'tier user_go' },
    tokens: null,
    cost: null,
  })
  assert.deepEqual(capsOf('acme', tier(5, 7), own(0)), {
    jobs: { limit: 0, of: 'account acme' },
    tokens: { limit: 7, of: 'tier user_go' },
    cost: null,
  })
  const capped = { ...tier(null, null), maxMonthlyCost: 9 }
  assert.deepEqual(capsOf('acme', capped, own(null))?.cost, { limit: 9, of: 'tier user_go' })
  assert.deepEqual(capsOf('acme', capped, { ...own(null), monthlyCost: 3 })?.cost, {
    limit: 3,
    of: 'account acme',
  })
  assert.equal(capsOf('acme', capped, { ...own(null), monthlyCost: 'none' }), null)
  assert.equal(capsOf('acme', tier(5, 7), own('none', 'none')), null)
})

/** A store that returns the usage in `said`, and the caps that read it. */
function watched(caps: { jobs?: number; tokens?: number }) {
  const clock = new FakeClock()
  const said = { used: { jobs: 0, openJobs: 0, tokens: 0 } as Used, asked: [] as string[] }
  const store = {
    used: async (account: string, month: string) => {
      said.asked.push(`${account} ${month}`)
      return said.used
    },
  }
  const of = 'tier user_go'
  const all: Omit<Caps, 'cost'> = {
    jobs: caps.jobs === undefined ? null : { limit: caps.jobs, of },
    tokens: caps.tokens === undefined ? null : { limit: caps.tokens, of },
  }
  const watch = new JobAndTokenCaps(store, clock)
  return { clock, said, reserve: (jobs = 1, account = 'acme') => watch.reserve(account, all, jobs) }
}

async function reserved(reserving: ReturnType<JobAndTokenCaps['reserve']>): Promise<Reserved> {
  const result = await reserving
  assert.equal(result.kind, 'reserved')
  return result as Reserved
}

test('ended, open, just accepted and reserved jobs count together, and those of other accounts do not', async () => {
  const { said, reserve } = watched({ jobs: 10 })
  said.used = { jobs: 3, openJobs: 2, tokens: 0 }
  const three = await reserved(reserve(3))
  const two = await reserved(reserve(2))
  const full = await reserve()
  assert.ok(full.kind === 'monthly cap')
  assert.deepEqual([full.unit, full.used, full.cap.limit], ['jobs', 10, 10])
  assert.equal(full.resetsAtMs, Date.UTC(2026, 1))
  await reserved(reserve(10 - 5, 'other'))
  three.end(true)
  two.end(false)
  await reserved(reserve(2))
  assert.equal((await reserve()).kind, 'monthly cap')
  assert.deepEqual(said.asked, ['acme 2026-01', 'other 2026-01'])
})

test('what was accepted here counts once when the database includes it, and no longer than that', async () => {
  const { clock, said, reserve } = watched({ jobs: 4 })
  ;(await reserved(reserve(2))).end(true)
  assert.equal((await reserve(3)).kind, 'monthly cap')
  said.used = { jobs: 0, openJobs: 2, tokens: 0 }
  clock.advance(2000)
  await reserved(reserve(2))
  assert.equal(said.asked.length, 2)
})

test('a job counts once if the database includes it while it is still being accepted', async () => {
  const { clock, said, reserve } = watched({ jobs: 4 })
  const late = await reserved(reserve(2))
  said.used = { jobs: 0, openJobs: 2, tokens: 0 }
  clock.advance(2000)
  const next = reserve(2)
  late.end(true)
  await reserved(next)
  assert.equal((await reserve()).kind, 'monthly cap')
})

test('a batch that does not fit is rejected as a whole', async () => {
  const { said, reserve } = watched({ jobs: 10 })
  said.used = { jobs: 8, openJobs: 0, tokens: 0 }
  assert.equal((await reserve(3)).kind, 'monthly cap')
  await reserved(reserve(2))
})

test('tokens are used up when the cap is reached', async () => {
  const { clock, said, reserve } = watched({ tokens: 100 })
  said.used = { jobs: 0, openJobs: 50, tokens: 99 }
  ;(await reserved(reserve(30))).end(true)
  said.used = { jobs: 0, openJobs: 50, tokens: 100 }
  clock.advance(2000)
  const full = await reserve()
  assert.ok(full.kind === 'monthly cap')
  assert.deepEqual([full.unit, full.used], ['tokens', 100])
})

test('a new month starts at zero at once', async () => {
  const { clock, said, reserve } = watched({ jobs: 1 })
  clock.jump(Date.UTC(2026, 1) - clock.nowMs() - 1)
  ;(await reserved(reserve())).end(true)
  assert.equal((await reserve()).kind, 'monthly cap')
  clock.jump(1)
  await reserved(reserve())
  assert.deepEqual(said.asked, ['acme 2026-01', 'acme 2026-02'])
})
