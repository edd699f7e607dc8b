/** What every store guarantees about bounded claims: by accounts and by bytes. */
import assert from 'node:assert/strict'
import type { Callback, Job } from '../../src/job/job.ts'
import type { Store } from '../../src/store/store.ts'
import { acceptance, addAccounts, ids, newJob, now, type On, settlement } from './fixtures.ts'

const ANY_SIZE = { small: 0, max: Number.MAX_SAFE_INTEGER }

/** A job whose texts have at least this many bytes. */
const sized = (bytes: number, account = 'acme') =>
  newJob({ account, messages: [{ role: 'user', content: 'x'.repeat(bytes) }] })

async function queue(store: Store, ...jobs: readonly Job[]): Promise<void> {
  for (const job of jobs) await store.accept(acceptance([job]))
}

const several = (count: number, account: string) => Array.from({ length: count }, () => newJob({ account }))

export function claimBoundsTests(on: On): void {
  on('claims nothing of the excepted accounts, and finds the others behind their jobs', async (store) => {
    await addAccounts(store, 'greedy', 'modest', 'another')
    await store.accept(acceptance(several(300, 'greedy')))
    await store.claim('node-a', 200, now.ms)
    const [single, other] = [newJob({ account: 'modest' }), newJob({ account: 'another' })]
    await queue(store, single, other)
    const bounds = { exceptOf: ['greedy', 'absent'] }
    const { jobs } = await store.claim('node-a', 10, now.ms, bounds)
    assert.deepEqual(ids(jobs).sort(), ids([single, other]).sort())
    assert.deepEqual(
      jobs.map(({ attempt }) => attempt),
      [1, 1],
    )
    assert.deepEqual(await store.claim('node-a', 10, now.ms, bounds), { jobs: [], tooLarge: null })
    assert.equal((await store.claim('node-a', 200, now.ms)).jobs.length, 100)
  })

  on('claims the first job of each account, and accounts take turns', async (store) => {
    await addAccounts(store, 'a', 'b', 'c')
    const first = ['a', 'b', 'c'].map((account) => newJob({ account }))
    const second = ['a', 'b', 'c'].map((account) => newJob({ account }))
    await queue(store, ...first, ...second)
    const claimed: Job[] = []
    for (let count = 0; count < 3; count++) {
      claimed.push(...(await store.claim('node-a', 1, now.ms, { exceptOf: [] })).jobs)
    }
    assert.deepEqual(ids(claimed).sort(), ids(first).sort())
    const rest = (await store.claim('node-a', 10, now.ms, { exceptOf: ['b'] })).jobs
    assert.deepEqual(
      new Set(ids(rest)),
      new Set(ids([second[0], second[2]].filter((job) => job !== undefined))),
    )
    assert.deepEqual(ids((await store.claim('node-a', 10, now.ms, { exceptOf: [] })).jobs), [second[1]?.id])
  })

  on(
    'leaves the order of the queue as it is when it claims for accounts that are not excepted',
    async (store) => {
      await addAccounts(store, 'greedy', 'late', 'newcomer')
      const backlog = several(10, 'greedy')
      await store.accept(acceptance(backlog))
      const late = several(4, 'late')
      await store.accept(acceptance(late, { step: 100_000 }))
      for (const job of late) {
        const { jobs } = await store.claim('node-a', 5, now.ms, { exceptOf: ['greedy'] })
        assert.deepEqual(ids(jobs), [job.id])
      }
      const newcomer = newJob({ account: 'newcomer' })
      await queue(store, newcomer)
      const { jobs } = await store.claim('node-a', 3, now.ms)
      assert.ok(ids(jobs).includes(newcomer.id))
    },
  )

  on('claims no poison candidates for accounts that are not excepted', async (store) => {
    await addAccounts(store, 'crashing')
    const crashed = newJob({ account: 'crashing' })
    await store.accept(acceptance([crashed], { node: 'dead', handedOff: true }))
    await store.rescue('node-a', now.ms)
    const fresh = newJob({ account: 'crashing' })
    await queue(store, fresh)
    const candidates = { crashCount: 1, limit: 1, maxCrashCount: 3 }
    const { jobs } = await store.claim('node-a', 5, now.ms, { exceptOf: [], candidates })
    assert.deepEqual(ids(jobs), [fresh.id])
    const others = await store.claim('node-a', 5, now.ms, {
      exceptOf: [],
      candidates: { ...candidates, crashCount: 2 },
    })
    assert.deepEqual(ids(others.jobs), [crashed.id])
  })

  on('gives each job to one node only, also for accounts that are not excepted', async (store, t) => {
    const jobs = Array.from({ length: 40 }, (_, index) => newJob({ account: `account ${index % 8}` }))
    await addAccounts(store, ...jobs.slice(0, 8).map(({ account }) => account))
    await queue(store, ...jobs)
    const claimed: Job[] = []
    while (claimed.length < jobs.length) {
      const claims = await Promise.all(
        Array.from({ length: 6 }, (_, index) =>
          store.claim(index % 2 ? 'node-a' : 'node-b', 3, now.ms, { exceptOf: ['nobody'] }),
        ),
      )
      claimed.push(...claims.flatMap((one) => one.jobs))
      t.signal.throwIfAborted()
    }
    assert.deepEqual(ids(claimed).sort(), ids(jobs).sort())
  })

  on(
    'claims large jobs up to a number of bytes, and no smaller ones behind the first that is too large',
    async (store) => {
      const jobs = [sized(10_000), newJob(), sized(10_000), sized(10_000), newJob()]
      await queue(store, ...jobs)
      const bytes = { small: 1000, max: 25_000 }
      const { jobs: first, tooLarge } = await store.claim('node-a', 5, now.ms, { bytes })
      assert.deepEqual(ids(first), ids(jobs.slice(0, 3)))
      assert.equal(tooLarge?.account, 'acme')
      assert.ok(tooLarge.bytes > 10_000 && tooLarge.bytes < 10_100, `${tooLarge.bytes}`)
      const none = await store.claim('node-a', 5, now.ms, { bytes: { small: 1000, max: 0 } })
      assert.deepEqual(none, { jobs: [], tooLarge })
      const exact = { bytes: { small: 1000, max: tooLarge.bytes } }
      assert.deepEqual(ids((await store.claim('node-a', 1, now.ms, exact)).jobs), [jobs[3]?.id])
      assert.deepEqual(ids((await store.claim('node-a', 5, now.ms, { bytes })).jobs), [jobs[4]?.id])
    },
  )

  on('counts the bytes of messages, response format and callback as they are stored', async (store) => {
    const callback: Callback = { url: 'https://example.com/', headers: {}, payloadJson: '"€€"' }
    const job = newJob({
      messages: [{ role: 'user', content: '€'.repeat(1000) }],
      responseFormat: { format: 'json', schema: { type: 'object' } },
      callback,
    })
    await queue(store, job)
    const { tooLarge } = await store.claim('node-a', 1, now.ms, { bytes: { small: 0, max: 0 } })
    const texts = [job.messagesJson, job.responseFormatJson].map((text) => Buffer.byteLength(text))
    const least = texts.reduce((sum, length) => sum + length, Buffer.byteLength(callback.payloadJson))
    const bytes = tooLarge?.bytes ?? 0
    assert.ok(bytes > least && bytes < least + 100, `${bytes}, at least ${least}`)
  })

  on(
    'passes over jobs that are too large when it claims for accounts that are not excepted',
    async (store) => {
      await addAccounts(store, 'a', 'b', 'c')
      const [large, other, small] = [sized(50_000, 'a'), sized(20_000, 'b'), newJob({ account: 'c' })]
      await queue(store, large, other, small)
      const bounds = { exceptOf: [], bytes: { small: 1000, max: 30_000 } }
      const { jobs, tooLarge } = await store.claim('node-a', 5, now.ms, bounds)
      assert.equal(tooLarge?.account, 'a')
      assert.deepEqual(ids(jobs).sort(), ids([other, small]).sort())
    },
  )

  on('finds a small job behind more accounts with too large ones than it may claim jobs', async (store) => {
    const large = Array.from({ length: 6 }, (_, index) => sized(50_000, `large ${index}`))
    const [small, last] = [newJob({ account: 'small' }), newJob({ account: 'zz' })]
    await addAccounts(store, ...[...large, small, last].map(({ account }) => account))
    await queue(store, ...large, small, last)
    const bounds = { exceptOf: [], bytes: { small: 1000, max: 0 } }
    const { jobs } = await store.claim('node-a', 2, now.ms, bounds)
    assert.deepEqual(ids(jobs).sort(), ids([small, last]).sort())
    const none = await store.claim('node-a', 2, now.ms, bounds)
    assert.deepEqual([none.jobs.length, none.tooLarge?.account], [0, 'large 0'])
  })

  on('returns every field of a large job as it was accepted', async (store) => {
    const job = newJob({
      messages: [{ role: 'user', content: `${'x'.repeat(300_000)}€` }],
      responseFormat: { format: 'json', schema: { type: 'object', title: 'y'.repeat(30_000) } },
      callback: {
        url: 'https://example.com/',
        headers: { 'x-a': 'b' },
        payloadJson: `"${'z'.repeat(30_000)}"`,
      },
    })
    await queue(store, job)
    const { jobs } = await store.claim('node-a', 1, now.ms, { bytes: ANY_SIZE })
    assert.deepEqual(jobs, [{ ...job, attempt: 1, crashCount: 0 }])
    assert.equal(await store.settle(settlement({ jobId: job.id, attempt: 1 })), 'settled')
  })
}
