/** What every store guarantees about routes: walks and lanes of them, and jobs that wait for a model server. */
import assert from 'node:assert/strict'
import type { ClaimedJob, Job } from '../../src/job/job.ts'
import { type Store, WALK_ROWS, type WaitingRelease } from '../../src/store/store.ts'
import {
  acceptance,
  addAccounts,
  claimLane,
  claimNext,
  claimOf,
  claimSuspects,
  expiry,
  ids,
  newJob,
  now,
  OF_ROUTE,
  type On,
  settlement,
} from './fixtures.ts'

const [DEAD, LIVE] = ['dead/m', 'live/m']

async function queue(store: Store, route: string, ...jobs: readonly Job[]): Promise<void> {
  for (const job of jobs) await store.accept(acceptance([job], { route }))
}

export const several = (count: number, account = 'acme') =>
  Array.from({ length: count }, () => newJob({ account }))

export const waiting = (
  job: Pick<ClaimedJob, 'id' | 'attempt'>,
  over: Partial<WaitingRelease> = {},
): WaitingRelease => ({
  ...claimOf(job),
  route: DEAD,
  earlierJson: '{"calls":3}',
  sinceMs: now.ms,
  waitedMs: 0,
  ...over,
})

const claimDead = (store: Store, limit: number) => claimNext(store, 'node-a', limit, now.ms, DEAD)

export function routeTests(on: On): void {
  on(
    'a walk claims jobs of its route only, in fair order, and knows whether there may be more',
    async (store) => {
      const [dead, live] = [several(3), several(3)]
      await queue(store, LIVE, ...live)
      await queue(store, DEAD, ...dead)
      assert.deepEqual((await store.queued()).routes.toSorted(), [DEAD, LIVE])
      const first = await store.claim('node-a', 2, now.ms, { ...OF_ROUTE, route: DEAD })
      assert.deepEqual([ids(first.jobs), first.mayHaveMore], [ids(dead.slice(0, 2)), true])
      const second = await store.claim('node-a', 2, now.ms, { ...OF_ROUTE, route: DEAD })
      assert.deepEqual([ids(second.jobs), second.mayHaveMore], [ids(dead.slice(2)), false])
      assert.deepEqual((await store.queued()).routes, [LIVE])
      assert.deepEqual(ids(await claimNext(store, 'node-a', 5, now.ms, LIVE)), ids(live))
      assert.deepEqual((await store.queued()).routes, [])
    },
  )

  on('the length of each queue, and its oldest job', async (store) => {
    assert.deepEqual(await store.queueDepths(), [])
    const [dead, live, suspects] = [several(3), several(2), several(1)]
    await queue(store, DEAD, ...dead)
    await queue(store, LIVE, ...live)
    await store.accept(acceptance(suspects, { route: LIVE, handedOff: true, node: 'dead' }))
    await store.rescue('node-a', now.ms)
    await claimNext(store, 'node-a', 1, now.ms, DEAD)
    const depths = (await store.queueDepths()).toSorted((one, other) => one.jobs - other.jobs)
    assert.deepEqual(depths, [
      { route: DEAD, jobs: 2, oldestId: dead[1]?.id },
      { route: LIVE, jobs: 3, oldestId: live[0]?.id },
    ])
  })

  on('each route has turns of its own', async (store) => {
    await addAccounts(store, 'busy', 'new')
    await queue(store, LIVE, ...several(30, 'busy'))
    await claimNext(store, 'node-a', 25, now.ms, LIVE)
    const slow = several(3, 'busy')
    await queue(store, DEAD, ...slow)
    await queue(store, DEAD, ...several(1, 'new'))
    // The jobs of the account on the other route do not count, nor how far that route has been claimed.
    const claimed = await claimDead(store, 4)
    assert.deepEqual(
      claimed
        .map(({ account }) => account)
        .slice(0, 2)
        .sort(),
      ['busy', 'new'],
    )
  })

  on(
    'an account that comes later does not pass one whose jobs of the route were claimed before',
    async (store) => {
      await addAccounts(store, 'early', 'late')
      await queue(store, LIVE, ...several(1, 'other'))
      await queue(store, DEAD, ...several(6, 'early'))
      await claimDead(store, 4)
      await queue(store, DEAD, ...several(6, 'late'))
      const jobs = await claimDead(store, 3)
      assert.ok(jobs.some(({ account }) => account === 'early'))
    },
  )

  on('a walk passes over accounts; what it passed over is claimed by lane', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    const [greedy, modest] = [several(5, 'greedy'), several(5, 'modest')]
    await queue(store, LIVE, ...several(3, 'greedy'))
    await queue(store, DEAD, ...greedy, ...modest)
    const { jobs } = await store.claim('node-a', 9, now.ms, {
      ...OF_ROUTE,
      route: DEAD,
      exceptAccounts: ['greedy', 'absent'],
    })
    assert.deepEqual(ids(jobs), ids(modest))
    assert.deepEqual(ids(await claimLane(store, 'greedy', 2, DEAD)), ids(greedy.slice(0, 2)))
    const except = {
      of: 'account',
      route: DEAD,
      account: 'greedy',
      exceptJobs: ids(greedy.slice(2, 3)),
    } as const
    const some = await store.claim('node-a', 1, now.ms, except)
    assert.deepEqual([ids(some.jobs), some.mayHaveMore], [ids(greedy.slice(3, 4)), true])
    const rest = await claimLane(store, 'greedy', 9, DEAD)
    assert.deepEqual(ids(rest), ids([...greedy.slice(2, 3), ...greedy.slice(4)]))
    assert.deepEqual(await store.claim('node-a', 9, now.ms, except), { jobs: [], mayHaveMore: false })
  })

  on('a walk looks at a bounded number of jobs, and the next one goes on', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    await store.accept(acceptance(several(2 * WALK_ROWS + 10, 'greedy'), { route: DEAD, step: 1 }))
    const late = several(3, 'modest')
    await store.accept(acceptance(late, { route: DEAD, step: 3 * WALK_ROWS }))
    const from = { ...OF_ROUTE, route: DEAD, exceptAccounts: ['greedy'] }
    const first = await store.claim('node-a', 2, now.ms, from)
    assert.deepEqual([ids(first.jobs), first.mayHaveMore], [ids(late.slice(0, 1)), true])
    const second = await store.claim('node-a', 2, now.ms, from)
    assert.deepEqual([ids(second.jobs), second.mayHaveMore], [[], true])
    const third = await store.claim('node-a', 2, now.ms, from)
    assert.deepEqual([ids(third.jobs), third.mayHaveMore], [ids(late.slice(1)), true])
    assert.deepEqual(await store.claim('node-a', 2, now.ms, from), { jobs: [], mayHaveMore: false })
  })

  on('a walk that keeps the place changes nothing for the next one', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    const [greedy, modest] = [several(2, 'greedy'), several(2, 'modest')]
    await queue(store, DEAD, ...greedy, ...modest)
    const from = { ...OF_ROUTE, route: DEAD, exceptAccounts: ['greedy'], keepsPlace: true }
    assert.deepEqual(ids((await store.claim('node-a', 1, now.ms, from)).jobs), ids(modest.slice(0, 1)))
    assert.deepEqual(
      ids(await claimDead(store, 9)),
      ids([greedy[0], greedy[1], modest[1]].filter((job) => job !== undefined)),
    )
  })

  on('a walk passes over jobs that it is not to claim, and the next one begins at them', async (store) => {
    const jobs = several(4)
    await queue(store, DEAD, ...jobs)
    const [first, second, third, last] = ids(jobs)
    const exceptJobs = [first ?? '', third ?? '', newJob().id]
    const from = { ...OF_ROUTE, route: DEAD, exceptJobs }
    assert.deepEqual(ids((await store.claim('node-a', 1, now.ms, from)).jobs), [second])
    assert.deepEqual(ids((await store.claim('node-a', 9, now.ms, from)).jobs), [last])
    assert.deepEqual(await store.claim('node-a', 9, now.ms, from), { jobs: [], mayHaveMore: false })
    assert.deepEqual(ids(await claimDead(store, 9)), [first, third])
  })

  on('a job that is queued or released behind a place is found by the next walk', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    await queue(store, DEAD, ...several(20, 'greedy'))
    const [held] = await claimDead(store, 2)
    assert.ok(held)
    const past = { ...OF_ROUTE, route: DEAD, exceptAccounts: ['greedy'] }
    assert.deepEqual((await store.claim('node-a', 5, now.ms, past)).jobs, [])
    const late = newJob({ account: 'modest' })
    await queue(store, DEAD, late)
    assert.deepEqual(ids((await store.claim('node-a', 5, now.ms, past)).jobs), [late.id])
    await store.release('node-a', [claimOf(held)])
    assert.deepEqual(ids(await claimDead(store, 1)), [held.id])
  })

  on('suspects are in no walk and in no lane, and their routes are not listed', async (store) => {
    const [crashed, other] = several(2)
    assert.ok(crashed && other)
    await queue(store, DEAD, crashed)
    await claimNext(store, 'dead', 1, now.ms, DEAD)
    await store.rescue('node-a', now.ms)
    assert.deepEqual((await store.queued()).routes, [])
    await queue(store, DEAD, other)
    assert.deepEqual(ids(await claimLane(store, 'acme', 5, DEAD)), [other.id])
    assert.deepEqual(await claimDead(store, 5), [])
    const [again] = await claimSuspects(store, 'node-a')
    assert.equal(again?.id, crashed.id)
  })

  on('returns a job that waits to the head of the queue, with what its runs used', async (store) => {
    const [first, second] = [newJob(), newJob()]
    await queue(store, '', first, second)
    const [held] = await claimNext(store, 'node-a', 1)
    assert.ok(held)
    assert.equal(held.earlierJson, undefined)
    await store.releaseWaiting('node-a', [waiting(held)])
    assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
    assert.deepEqual(ids(await claimNext(store, 'node-a', 5)), [second.id])
    const [again] = await claimDead(store, 5)
    assert.deepEqual(again, { ...held, attempt: 2, earlierJson: '{"calls":3}' })
    assert.equal(await store.settle(settlement(claimOf(held))), 'stale')
    assert.equal(await store.settle(settlement(claimOf(again))), 'settled')
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 1, oldestCreatedAtMs: null })
  })

  on('lets only the holder of a job release it to wait', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const claim = { id: job.id, attempt: 1 }
    await store.releaseWaiting('node-b', [waiting(claim)])
    await store.releaseWaiting('node-a', [waiting({ ...claim, attempt: 2 })])
    assert.equal((await store.depth()).waiting, 0)
    await store.releaseWaiting('node-a', [waiting(claim)])
    await store.releaseWaiting('node-a', [waiting(claim, { earlierJson: '{}' })])
    const [again] = await claimDead(store, 5)
    assert.equal(again?.earlierJson, '{"calls":3}')
  })

  on(
    'keeps the route and the earlier runs of a job through releases and crashes',
    async (store, _t, place) => {
      const job = newJob()
      await queue(store, DEAD, job)
      const [first] = await claimDead(store, 1)
      assert.ok(first)
      await store.releaseWaiting('node-a', [waiting(first)])
      const [second] = await claimDead(store, 1)
      assert.ok(second)
      await store.release('node-a', [claimOf(second)])
      const [third] = await claimDead(store, 1)
      assert.equal(third?.earlierJson, '{"calls":3}')
      await store.close()
      const next = await place.open()
      await next.rescue('node-b', now.ms)
      const [fourth] = await claimSuspects(next, 'node-b')
      assert.deepEqual([fourth?.earlierJson, fourth?.crashCount], ['{"calls":3}', 1])
      await next.close()
    },
  )
}
