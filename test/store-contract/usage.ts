/** What every store guarantees about usage: each ended job counts once, in the month in which it ended. */
import assert from 'node:assert/strict'
import type { Settlement, Store } from '../../src/store/store.ts'
import { acceptance, addAccounts, newJob, now, type On, settlement, storeEnded, USAGE } from './fixtures.ts'

export function usageTests(on: On): void {
  const ended = async (
    store: Store,
    over: { account?: string; model?: string } & Partial<Settlement> = {},
  ) => {
    const { account = 'acme', model = 'gpt-5-mini', ...rest } = over
    const job = newJob({ account, model })
    await store.accept(acceptance([job], { handedOff: true }))
    const all = settlement({ jobId: job.id, attempt: 1 }, { model, ...rest })
    assert.equal(await store.settle(all), 'settled')
    return all
  }
  const ONE = {
    account: 'acme',
    month: '2026-01',
    model: 'gpt-5-mini',
    jobs: 1,
    failedJobs: 0,
    cacheHits: 0,
    calls: 1,
    inputTokens: 3,
    outputTokens: 5,
  }

  on('sums what was settled by account, month and model', async (store) => {
    await ended(store)
    await ended(store, { usage: { ...USAGE, input_tokens: 2 ** 40, calls: 3 } })
    await ended(store, { usage: { ...USAGE, input_tokens: 0, output_tokens: 0, calls: 0, cache_hit: true } })
    const error = { code: 'model_error', message: 'No.' } as const
    await ended(store, { outcome: { status: 'failed', error } })
    await ended(store, { model: 'gpt-5' })
    await ended(store, { account: 'other' })
    const sums = {
      jobs: 4,
      failedJobs: 1,
      cacheHits: 1,
      calls: 5,
      inputTokens: 2 ** 40 + 6,
      outputTokens: 15,
    }
    assert.deepEqual(await store.listUsage({ limit: 10 }), [
      { ...ONE, model: 'gpt-5' },
      { ...ONE, ...sums },
      { ...ONE, account: 'other' },
    ])
  })

  on('sums what jobs cost, beside those that have no price', async (store) => {
    await ended(store)
    await ended(store, { usage: { ...USAGE, cost: 0 } })
    const [free] = await store.listUsage({ limit: 10 })
    assert.equal(free?.cost, 0)
    await Promise.all([1, 2 ** 40].map((cost) => ended(store, { usage: { ...USAGE, cost } })))
    await ended(store)
    await ended(store, { model: 'gpt-5', usage: { ...USAGE, cost: Number.MAX_SAFE_INTEGER } })
    const sums = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      sums.map(({ model, jobs, cost }) => [model, jobs, cost]),
      [
        ['gpt-5', 1, Number.MAX_SAFE_INTEGER],
        ['gpt-5-mini', 5, 2 ** 40 + 1],
      ],
    )
  })

  on(
    'reserves what jobs may cost for as long as they are open, and counts what they cost then',
    async (store) => {
      const reserved = async () => (await store.quotaUse('acme')).reserved ?? 0
      const cost = async () => (await store.listUsage({ account: 'acme', limit: 1 }))[0]?.cost
      const [one, two, three, four] = [
        newJob({ reserved: 100 }),
        newJob({ reserved: 2 ** 40, inputTokens: 3 }),
        newJob(),
        newJob({ reserved: 7 }),
      ]
      await store.accept(acceptance([one, two, three], { handedOff: true }))
      await store.accept(acceptance([four]))
      assert.equal(await reserved(), 2 ** 40 + 107)
      const usage = { ...USAGE, cost: 5 }
      await store.settle(settlement({ jobId: one.id, attempt: 1 }, { usage }))
      assert.deepEqual([await reserved(), await cost()], [2 ** 40 + 7, 5])
      // A node holds the job, so the call in progress counts.
      const inputPrices = new Map([[two.model, 10]])
      const cancel = { account: 'acme', nowMs: now.ms, inputTokens: null, inputPrices }
      assert.equal(await store.cancelOwnJob({ ...cancel, jobId: two.id }), 'cancelled')
      assert.deepEqual([await reserved(), await cost()], [7, 35])
      assert.equal(await store.cancelOwnJob({ ...cancel, jobId: four.id }), 'cancelled')
      assert.equal(await store.cancelJob(three.id, now.ms), 'cancelled')
      assert.deepEqual([await reserved(), await cost()], [0, 35])
      const usageOf = async (jobId: string) =>
        JSON.parse((await store.readEnded([jobId]))[0]?.usageJson ?? 'null').cost
      assert.deepEqual(await Promise.all([one, two, three, four].map(({ id }) => usageOf(id))), [
        5,
        30,
        undefined,
        0,
      ])
    },
  )

  on('accepts no job that would exceed a cap in money, and all that do not', async (store) => {
    const spend = async (cost: number) => ended(store, { usage: { ...USAGE, cost } })
    await spend(10)
    const create = (reserved: number | undefined, costCap: number, over = {}) => {
      const job = newJob(reserved === undefined ? {} : { reserved })
      return store.accept({ ...acceptance([job]), costCap, ...over })
    }
    assert.deepEqual(await create(91, 100), { kind: 'over cost cap', used: 10 })
    assert.equal((await create(90, 100)).kind, 'accepted')
    assert.deepEqual(await create(1, 100), { kind: 'over cost cap', used: 100 })
    assert.equal((await create(0, 100)).kind, 'accepted')
    assert.equal((await create(undefined, 5)).kind, 'accepted')
    assert.equal((await create(1, 101)).kind, 'accepted')
    // A batch is accepted as a whole or not at all, and other accounts are unaffected.
    const batch = [newJob({ reserved: 1 }), newJob({ reserved: 1 })]
    assert.equal((await store.accept({ ...acceptance(batch), costCap: 102 })).kind, 'over cost cap')
    assert.equal((await store.findMissing(batch.map(({ id }) => id))).length, 2)
    const other = newJob({ account: 'other', reserved: 50 })
    assert.equal((await store.accept({ ...acceptance([other]), costCap: 50 })).kind, 'accepted')
    // In another month only open jobs count.
    const nextMonth = { nowMs: now.ms + 31 * 86_400_000 }
    assert.deepEqual(await create(10, 100, nextMonth), { kind: 'over cost cap', used: 91 })
    assert.equal((await create(9, 100, nextMonth)).kind, 'accepted')
  })

  on(
    'keeps a cap in money exactly, however many jobs are accepted and settled at the same time',
    async (store) => {
      const jobs = Array.from({ length: 60 }, () => newJob({ reserved: 7 }))
      const accepted = await Promise.all(
        jobs.map(async (job) => {
          const { kind } = await store.accept({ ...acceptance([job], { handedOff: true }), costCap: 210 })
          return kind === 'accepted' ? [job] : []
        }),
      )
      assert.equal(accepted.flat().length, 30)
      const usage = { ...USAGE, cost: 2 }
      const ends = accepted
        .flat()
        .map(({ id }) => store.settle(settlement({ jobId: id, attempt: 1 }, { usage })))
      const more = Array.from({ length: 60 }, async () => {
        const job = newJob({ reserved: 3 })
        const { kind } = await store.accept({ ...acceptance([job], { handedOff: true }), costCap: 210 })
        return kind === 'accepted' ? 3 : 0
      })
      await Promise.all(ends)
      const added = (await Promise.all(more)).reduce<number>((sum, one) => sum + one, 0)
      assert.ok(added <= 150)
      const left = await Promise.all(
        Array.from({ length: 60 }, async () => {
          const job = newJob({ reserved: 3 })
          return (await store.accept({ ...acceptance([job]), costCap: 210 })).kind === 'accepted' ? 3 : 0
        }),
      )
      assert.equal(left.reduce<number>((sum, one) => sum + one, 0) + added, 150)
    },
  )

  on('remembers no key of a request over a cap in money, and repeats an accepted one', async (store) => {
    const idempotency = { key: 'key', fingerprint: 'a', untilMs: now.ms + 1000 }
    const ask = (costCap: number, key = 'key') => {
      const job = newJob({ reserved: 10 })
      return store.accept({ ...acceptance([job]), idempotency: { ...idempotency, key }, costCap })
    }
    assert.equal((await ask(9)).kind, 'over cost cap')
    assert.equal((await ask(10)).kind, 'accepted')
    assert.equal((await ask(10)).kind, 'repeated')
    assert.equal((await ask(10, 'another')).kind, 'over cost cap')
    const equal = await Promise.all([ask(20, 'same'), ask(20, 'same'), ask(20, 'same')])
    assert.deepEqual(equal.map(({ kind }) => kind).toSorted(), ['accepted', 'repeated', 'repeated'])
  })

  on(
    'counts a job once, whoever else settles it, and one that was stored with its outcome',
    async (store) => {
      const all = await ended(store)
      assert.equal(await store.settle(all), 'stale')
      assert.equal(await store.settle({ ...all, attempt: 2 }), 'stale')
      const job = newJob()
      await storeEnded(store, job, settlement({ jobId: job.id, attempt: 1 }))
      const [sum] = await store.listUsage({ limit: 10 })
      assert.deepEqual(sum, { ...ONE, jobs: 2, calls: 2, inputTokens: 6, outputTokens: 10 })
    },
  )

  on('counts jobs that are settled at the same time', async (store) => {
    const accounts = ['a', 'b', 'c']
    await addAccounts(store, ...accounts)
    const models = ['gpt-5', 'gpt-5-mini']
    const all = Array.from({ length: 300 }, (_, at) => ({
      account: accounts[at % 3] ?? '',
      model: models[at % 2] ?? '',
    }))
    await Promise.all(all.map((one) => ended(store, one)))
    const sums = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      sums.map(({ account, model, jobs, outputTokens }) => [account, model, jobs, outputTokens]),
      accounts.flatMap((account) => models.map((model) => [account, model, 50, 250])),
    )
  })

  on('keeps counting whatever a model server claims', async (store) => {
    const huge = { ...USAGE, input_tokens: Number.MAX_SAFE_INTEGER, output_tokens: Number.MAX_SAFE_INTEGER }
    // The sum exceeds 64 bits in steps: a store rejects what it cannot represent.
    for (let round = 0; round < 11; round++) {
      await Promise.all(Array.from({ length: 100 }, () => ended(store, { usage: huge })))
    }
    await ended(store)
    const [sum] = await store.listUsage({ limit: 10 })
    assert.equal(sum?.jobs, 1101)
    assert.ok((sum?.inputTokens ?? 0) >= Number.MAX_SAFE_INTEGER)
    assert.ok((await store.used('acme', '2026-01')).tokens >= Number.MAX_SAFE_INTEGER)
  })

  on('is found newest month first, by account and by month, a page at a time', async (store) => {
    await addAccounts(store, 'b', 'c')
    await ended(store)
    now.ms = Date.UTC(2026, 1, 1) - 1
    await ended(store, { account: 'b' })
    now.ms += 1
    await ended(store, { account: 'b' })
    await ended(store, { account: 'c', model: 'gpt-5' })
    const found = async (over: Omit<Parameters<Store['listUsage']>[0], 'limit'> & { limit?: number }) =>
      (await store.listUsage({ limit: 10, ...over })).map(({ account, month }) => `${account} ${month}`)
    assert.deepEqual(await found({}), ['b 2026-02', 'c 2026-02', 'acme 2026-01', 'b 2026-01'])
    assert.deepEqual(await found({ account: 'b' }), ['b 2026-02', 'b 2026-01'])
    assert.deepEqual(await found({ month: '2026-01' }), ['acme 2026-01', 'b 2026-01'])
    assert.deepEqual(await found({ account: 'b', month: '2026-02' }), ['b 2026-02'])
    assert.deepEqual(await found({ limit: 2 }), ['b 2026-02', 'c 2026-02'])
    const after = { account: 'c', month: '2026-02', model: 'gpt-5' }
    assert.deepEqual(await found({ after, limit: 1 }), ['acme 2026-01'])
    assert.deepEqual(await found({ month: '2025-12' }), [])
  })

  on('returns what counts against caps: what ended in the month, and what is open', async (store) => {
    await ended(store)
    await ended(store, { model: 'gpt-5' })
    await ended(store, { account: 'other' })
    await store.accept(acceptance([newJob(), newJob(), newJob({ account: 'other' })]))
    await store.accept(acceptance([newJob()], { handedOff: true }))
    assert.deepEqual(await store.used('acme', '2026-01'), { jobs: 2, openJobs: 3, tokens: 16 })
    assert.deepEqual(await store.used('acme', '2026-02'), { jobs: 0, openJobs: 3, tokens: 0 })
    assert.deepEqual(await store.used('nobody', '2026-01'), { jobs: 0, openJobs: 0, tokens: 0 })
  })

  on('outlives what it counted', async (store) => {
    await ended(store)
    now.ms += 30 * 86_400_000
    while (await store.expire({ nowMs: now.ms, retentionMs: 1000 }));
    assert.deepEqual(await store.listUsage({ limit: 10 }), [ONE])
  })
}
