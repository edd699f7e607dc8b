/** Tests which cap applies, and how jobs count that the usage in the database does not include yet. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { type Tier, Tiers } from '../job/tier.ts'
import type { Used } from '../store/usage-store.ts'
import { type Caps, capsOf, JobAndTokenCaps, type Reserved } from './job-and-token-caps.ts'

const tier = (
  maxMonthlyJobs: number | null,
  maxMonthlyTokens: number | null,
  maxMonthlyCost: number | null,
): Tier => ({
  ...new Tiers([]).of('none'),
  name: 'user_go',
  maxMonthlyJobs,
  maxMonthlyTokens,
  maxMonthlyCost,
})
type OwnCap = number | 'none' | null

for (const [name, ofTier, own, expected] of [
  ['none at all', [null, null, null], [null, null, null], null],
  ['the tier has one', [5, null, null], [null, null, null], ['5 of tier user_go', null, null]],
  ['its own is 0', [5, 7, null], [0, null, null], ['0 of account acme', '7 of tier user_go', null]],
  ['the tier has one for cost', [null, null, 9], [null, null, null], [null, null, '9 of tier user_go']],
  ['its own one for cost', [null, null, 9], [null, null, 3], [null, null, '3 of account acme']],
  ['its own cost is not capped', [null, null, 9], [null, null, 'none'], null],
  ['nothing of its own is capped', [5, 7, null], ['none', 'none', null], null],
] as readonly [string, Parameters<typeof tier>, OwnCap[], (string | null)[] | null][]) {
  test(`an account's own cap goes before its tier's, and either may be none: ${name}`, () => {
    const [monthlyJobs = null, monthlyTokens = null, monthlyCost = null] = own
    const ofAccount = { monthlyJobs, monthlyTokens, ...(monthlyCost !== null && { monthlyCost }) }
    const caps = capsOf('acme', tier(...ofTier), ofAccount)
    const found = caps && [caps.jobs, caps.tokens, caps.cost].map((cap) => cap && `${cap.limit} of ${cap.of}`)
    assert.deepEqual(found, expected)
  })
}

/** Returns caps on a store that reports the usage in `said`. */
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
