/** What every store guarantees about routes: jobs that wait for a model server, and claims that skip them. */
import assert from 'node:assert/strict'
import type { ClaimedJob, Job } from '../../src/job/job.ts'
import type { Store, WaitingRelease } from '../../src/store/store.ts'
import {
  acceptance,
  addAccounts,
  claimOf,
  expiry,
  ids,
  newJob,
  now,
  type On,
  settlement,
} from './fixtures.ts'

const [DEAD, LIVE] = ['dead/m', 'live/m']
const PATIENCE_MS = 3_600_000
const OVERDUE = { unavailableSinceMs: 0, patienceMs: PATIENCE_MS }

async function queue(store: Store, route: string, ...jobs: readonly Job[]): Promise<void> {
  for (const job of jobs) await store.accept(acceptance([job], { route }))
}

const several = (count: number, account = 'acme') => Array.from({ length: count }, () => newJob({ account }))

const waiting = (job: ClaimedJob, over: Partial<WaitingRelease> = {}): WaitingRelease => ({
  ...claimOf(job),
  route: DEAD,
  earlierJson: '{"calls":3}',
  sinceMs: now.ms,
  waitedMs: 0,
  ...over,
})

const claimExcept = (store: Store, limit: number, exceptRoutes: readonly string[]) =>
  store.claim('node-a', limit, now.ms, { exceptRoutes })

const claimOfRoute = (store: Store, limit: number, onlyIfAlone: readonly string[] = []) =>
  store.claim('node-a', limit, now.ms, { ofRoute: { route: DEAD, onlyIfAlone } })

const claimOverdue = (store: Store, unavailableSinceMs: number, limit = 100) => {
  const overdue = { unavailableSinceMs, patienceMs: PATIENCE_MS }
  return store.claim('node-a', limit, now.ms, { ofRoute: { route: DEAD, onlyIfAlone: [], overdue } })
}

export function routeTests(on: On): void {
  on('claims nothing of the routes that are passed over, and the others in fair order', async (store) => {
    await addAccounts(store, 'greedy')
    await store.accept(acceptance(several(300, 'greedy'), { route: DEAD }))
    const [first, second, third] = several(3)
    assert.ok(first && second && third)
    await queue(store, LIVE, first)
    await queue(store, 'other/m', second)
    await queue(store, '', third)
    const { jobs } = await claimExcept(store, 10, [DEAD, 'absent/m'])
    assert.deepEqual(ids(jobs), ids([first, second, third]))
    assert.deepEqual(await claimExcept(store, 10, [DEAD]), { jobs: [], tooLarge: null })
    assert.equal((await store.claim('node-a', 300, now.ms)).jobs.length, 300)
  })

  on('passes routes over when it claims for accounts', async (store) => {
    await addAccounts(store, 'a', 'b')
    await queue(store, DEAD, ...several(5, 'a'), ...several(5, 'b'))
    const [ofA, ofB] = [newJob({ account: 'a' }), newJob({ account: 'b' })]
    await queue(store, LIVE, ofA, ofB)
    const found = await store.claim('node-a', 5, now.ms, { exceptOf: ['b'], exceptRoutes: [DEAD] })
    assert.deepEqual(ids(found.jobs), [ofA.id])
    const account = await store.claim('node-a', 1, now.ms, { ofAccount: 'b', exceptRoutes: [DEAD] })
    assert.deepEqual(ids(account.jobs), [ofB.id])
    const none = await store.claim('node-a', 5, now.ms, { exceptOf: [], exceptRoutes: [DEAD] })
    assert.deepEqual(none, { jobs: [], tooLarge: null })
  })

  on('claims jobs of one route only, in fair order', async (store) => {
    const [dead, live] = [several(3), several(3)]
    await queue(store, LIVE, ...live)
    await queue(store, DEAD, ...dead)
    assert.deepEqual(ids((await claimOfRoute(store, 2)).jobs), ids(dead.slice(0, 2)))
    assert.deepEqual(ids((await claimOfRoute(store, 2)).jobs), ids(dead.slice(2)))
    assert.deepEqual(ids((await store.claim('node-a', 5, now.ms)).jobs), ids(live))
  })

  on(
    'an account that comes later does not pass one whose jobs of the route were claimed before',
    async (store) => {
      await addAccounts(store, 'early', 'late')
      await queue(store, LIVE, ...several(1, 'other'))
      await queue(store, DEAD, ...several(6, 'early'))
      await claimOfRoute(store, 4)
      await queue(store, DEAD, ...several(6, 'late'))
      const { jobs } = await claimOfRoute(store, 3)
      assert.ok(jobs.some(({ account }) => account === 'early'))
    },
  )

  on('claims the jobs that failed last only if there is no other', async (store) => {
    const [failed, other] = [newJob(), newJob()]
    await queue(store, DEAD, failed, other)
    const except = [failed.id, newJob().id]
    assert.deepEqual(ids((await claimOfRoute(store, 1, except)).jobs), [other.id])
    assert.deepEqual(ids((await claimOfRoute(store, 1, except)).jobs), [failed.id])
    assert.deepEqual((await claimOfRoute(store, 1, except)).jobs, [])
  })

  on('keeps to bytes when it claims of a route or past routes', async (store) => {
    const large = newJob({ messages: [{ role: 'user', content: 'x'.repeat(10_000) }] })
    await queue(store, DEAD, large)
    const bytes = { small: 1000, max: 5000 }
    const ofRoute = { route: DEAD, onlyIfAlone: [] }
    const one = await store.claim('node-a', 1, now.ms, { ofRoute, bytes })
    const other = await store.claim('node-a', 1, now.ms, { exceptRoutes: [LIVE], bytes })
    for (const { jobs, tooLarge } of [one, other]) {
      assert.deepEqual([jobs, tooLarge?.account], [[], 'acme'])
    }
  })

  on('returns a job that waits to the head of the queue, with what its runs used', async (store) => {
    const [first, second] = [newJob(), newJob()]
    await queue(store, '', first, second)
    const [held] = (await store.claim('node-a', 1, now.ms)).jobs
    assert.ok(held)
    assert.equal(held.earlierJson, undefined)
    await store.releaseWaiting('node-a', [waiting(held)])
    assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
    assert.deepEqual(ids((await claimExcept(store, 5, [DEAD])).jobs), [second.id])
    const [again] = (await claimOfRoute(store, 5)).jobs
    assert.deepEqual(again, { ...held, attempt: 2, earlierJson: '{"calls":3}' })
    assert.equal(await store.settle(settlement(claimOf(held))), 'stale')
    assert.equal(await store.settle(settlement(claimOf(again))), 'settled')
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 1, oldestCreatedAtMs: null })
  })

  on('lets only the holder of a job release it to wait', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const claim = { ...job, attempt: 1, crashCount: 0 }
    await store.releaseWaiting('node-b', [waiting(claim)])
    await store.releaseWaiting('node-a', [waiting({ ...claim, attempt: 2 })])
    assert.equal((await store.depth()).waiting, 0)
    await store.releaseWaiting('node-a', [waiting(claim)])
    await store.releaseWaiting('node-a', [waiting(claim, { earlierJson: '{}' })])
    const [again] = (await claimOfRoute(store, 5)).jobs
    assert.equal(again?.earlierJson, '{"calls":3}')
  })

  on(
    'keeps the route and the earlier runs of a job through releases and crashes',
    async (store, _t, place) => {
      const job = newJob()
      await queue(store, DEAD, job)
      const [first] = (await claimOfRoute(store, 1)).jobs
      assert.ok(first)
      await store.releaseWaiting('node-a', [waiting(first)])
      const [second] = (await claimOfRoute(store, 1)).jobs
      assert.ok(second)
      await store.release('node-a', [claimOf(second)])
      const [third] = (await claimOfRoute(store, 1)).jobs
      assert.equal(third?.earlierJson, '{"calls":3}')
      await store.close()
      const next = await place.open()
      await next.rescue('node-b', now.ms)
      const ofRoute = { route: DEAD, onlyIfAlone: [] }
      const [fourth] = (await next.claim('node-b', 1, now.ms, { ofRoute })).jobs
      assert.deepEqual([fourth?.earlierJson, fourth?.crashCount], ['{"calls":3}', 1])
      await next.close()
    },
  )

  on(
    'counts the wait of an untried job from its creation or the outage, whichever is later',
    async (store) => {
      const outageMs = now.ms
      const [before, other] = [newJob(), newJob()]
      await queue(store, DEAD, before)
      await queue(store, LIVE, other)
      now.ms += 1000
      const after = newJob()
      await queue(store, DEAD, after)
      now.ms = outageMs + PATIENCE_MS
      assert.deepEqual((await claimOverdue(store, outageMs + 500)).jobs, [])
      now.ms += 1
      assert.deepEqual(ids((await claimOverdue(store, outageMs)).jobs), [before.id])
      now.ms += 1000
      assert.deepEqual(ids((await claimOverdue(store, outageMs)).jobs), [after.id])
    },
  )

  on('claims poison candidates of a route if it has no other job', async (store) => {
    const [crashed, other] = several(2)
    assert.ok(crashed && other)
    await queue(store, DEAD, crashed)
    await store.claim('dead', 1, now.ms)
    await store.rescue('node-a', now.ms)
    await queue(store, DEAD, other)
    const candidates = { crashCount: 1, limit: 1, maxCrashCount: 3 }
    const claim = async (limit: number, overdue = false) => {
      const ofRoute = { route: DEAD, onlyIfAlone: [], ...(overdue && { overdue: OVERDUE }) }
      return ids(
        (await store.claim('node-a', 5, now.ms, { candidates: { ...candidates, limit }, ofRoute })).jobs,
      )
    }
    assert.deepEqual(await claim(1), [other.id])
    assert.deepEqual(await claim(0), [])
    assert.deepEqual(await claim(1, true), [], 'it has not waited for long')
    now.ms += PATIENCE_MS + 1
    assert.deepEqual(await claim(0, true), [])
    assert.deepEqual(await claim(1, true), [crashed.id])
    await store.release('node-a', [{ jobId: crashed.id, attempt: 2 }])
    assert.deepEqual(await claim(1), [crashed.id])
  })

  on('counts the wait of a job that ran and never waited from its creation', async (store) => {
    const job = newJob()
    await queue(store, DEAD, job)
    await store.claim('node-a', 1, now.ms)
    await store.release('node-a', [{ jobId: job.id, attempt: 1 }])
    now.ms += PATIENCE_MS + 1
    assert.deepEqual(ids((await claimOverdue(store, 0)).jobs), [job.id])
  })

  on('counts the wait of a tried job from its release, and what it waited before', async (store) => {
    const jobs = several(2)
    await queue(store, '', ...jobs)
    const [first, second] = (await store.claim('node-a', 2, now.ms)).jobs
    assert.ok(first && second)
    await store.releaseWaiting('node-a', [waiting(first), waiting(second, { waitedMs: 60_000 })])
    const releasedMs = now.ms
    now.ms += PATIENCE_MS - 60_001
    assert.deepEqual((await claimOverdue(store, releasedMs)).jobs, [])
    now.ms += 1
    assert.deepEqual((await claimOverdue(store, releasedMs + 1)).jobs, [])
    assert.deepEqual(ids((await claimOverdue(store, releasedMs - 1)).jobs), [second.id])
    now.ms += 60_000
    assert.deepEqual(ids((await claimOverdue(store, 0, 1)).jobs), [first.id])
  })
}
