/** Tests what every store guarantees about routes: their walks and lanes, and jobs that wait for a model server. */
import assert from 'node:assert/strict'
import type { ClaimedJob, Job } from '../../src/job/job.ts'
import {
  type ClaimFrom,
  type ClaimOfRoute,
  type Store,
  WALK_ROWS,
  type WaitingRelease,
} from '../../src/store/store.ts'
import {
  claimOf,
  EMPTY,
  expiry,
  ids,
  newJob,
  now,
  OF_ROUTE,
  type On,
  settlement,
  several,
} from './fixtures.ts'
import { accept, addAccounts, addHeld, claimLane, claimNext, claimSuspects, settle } from './steps.ts'

export const [DEAD, LIVE] = ['dead/m', 'live/m'] as const

export async function queue(store: Store, route: string, ...jobs: readonly Job[]): Promise<void> {
  for (const job of jobs) await accept(store, [job], { route })
}

export const waiting = (
  job: Pick<ClaimedJob, 'id' | 'attempt'>,
  over: Partial<WaitingRelease> = {},
): WaitingRelease => {
  const usual = { route: DEAD, earlierJson: '{"calls":3}', sinceMs: now.ms, waitedMs: 0 }
  return { ...claimOf(job), ...usual, ...over }
}

const of = (account: string, count: number) => several(count, { account })
const claimDead = (store: Store, limit: number) => claimNext(store, 'node-a', limit, now.ms, DEAD)
const claimOne = async (store: Store) => {
  const [claimed] = await claimDead(store, 1)
  assert.ok(claimed)
  return claimed
}

async function claimIds(store: Store, limit: number, from: ClaimFrom) {
  const { jobs, mayHaveMore } = await store.claim('node-a', limit, now.ms, from)
  return [ids(jobs), mayHaveMore]
}

const walk = (store: Store, limit: number, over: Partial<ClaimOfRoute> = {}) =>
  claimIds(store, limit, { ...OF_ROUTE, route: DEAD, ...over })

export function routeTests(on: On): void {
  on(
    'a walk claims jobs of its route only, in fair order, and knows whether there may be more',
    async (store) => {
      const [dead, live] = [several(3), several(3)]
      await queue(store, LIVE, ...live)
      await queue(store, DEAD, ...dead)
      assert.deepEqual((await store.queued()).routes.toSorted(), [DEAD, LIVE])
      assert.deepEqual(await walk(store, 2), [ids(dead.slice(0, 2)), true])
      assert.deepEqual(await walk(store, 2), [ids(dead.slice(2)), false])
      assert.deepEqual((await store.queued()).routes, [LIVE])
      assert.deepEqual(ids(await claimNext(store, 'node-a', 5, now.ms, LIVE)), ids(live))
      assert.deepEqual((await store.queued()).routes, [])
    },
  )

  on('the length of each queue, and its oldest job', async (store) => {
    assert.deepEqual(await store.queueDepths(), [])
    const [dead, live] = [several(3), several(2)]
    await queue(store, DEAD, ...dead)
    await queue(store, LIVE, ...live)
    await accept(store, [newJob()], { route: LIVE, handedOff: true, node: 'dead' })
    await store.rescue('node-a', now.ms)
    await claimDead(store, 1)
    const depths = (await store.queueDepths()).toSorted((one, other) => one.jobs - other.jobs)
    assert.deepEqual(depths, [
      { route: DEAD, jobs: 2, oldestId: dead[1]?.id },
      { route: LIVE, jobs: 3, oldestId: live[0]?.id },
    ])
  })

  on('each route has turns of its own', async (store) => {
    await addAccounts(store, 'busy', 'new')
    await queue(store, LIVE, ...of('busy', 30))
    await claimNext(store, 'node-a', 25, now.ms, LIVE)
    await queue(store, DEAD, ...of('busy', 3), ...of('new', 1))
    // The jobs of the account on the other route do not count, nor how far that route has been claimed.
    const claimed = await claimDead(store, 4)
    const first = claimed.slice(0, 2).map(({ account }) => account)
    assert.deepEqual(first.sort(), ['busy', 'new'])
  })

  on(
    'an account that comes later does not pass one whose jobs of the route were claimed before',
    async (store) => {
      await addAccounts(store, 'early', 'late')
      await queue(store, LIVE, ...of('other', 1))
      await queue(store, DEAD, ...of('early', 6))
      await claimDead(store, 4)
      await queue(store, DEAD, ...of('late', 6))
      const jobs = await claimDead(store, 3)
      assert.ok(jobs.some(({ account }) => account === 'early'))
    },
  )

  on('a walk passes over accounts; what it passed over is claimed by lane', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    const [greedy, modest] = [of('greedy', 5), of('modest', 5)]
    const [, , third, fourth, fifth] = ids(greedy)
    await queue(store, LIVE, ...of('greedy', 3))
    await queue(store, DEAD, ...greedy, ...modest)
    const [walked] = await walk(store, 9, { exceptAccounts: ['greedy', 'absent'] })
    assert.deepEqual(walked, ids(modest))
    assert.deepEqual(ids(await claimLane(store, 'greedy', 2, DEAD)), ids(greedy.slice(0, 2)))
    const except = { of: 'account', route: DEAD, account: 'greedy', exceptJobs: [third ?? ''] } as const
    assert.deepEqual(await claimIds(store, 1, except), [[fourth], true])
    assert.deepEqual(ids(await claimLane(store, 'greedy', 9, DEAD)), [third, fifth])
    assert.deepEqual(await claimIds(store, 9, except), [[], false])
  })

  on('a walk looks at a bounded number of jobs, and the next one goes on', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    await accept(store, of('greedy', 2 * WALK_ROWS + 10), { route: DEAD, step: 1 })
    const late = await accept(store, of('modest', 3), { route: DEAD, step: 3 * WALK_ROWS })
    const except = { exceptAccounts: ['greedy'] }
    assert.deepEqual(await walk(store, 2, except), [ids(late.slice(0, 1)), true])
    assert.deepEqual(await walk(store, 2, except), [[], true])
    assert.deepEqual(await walk(store, 2, except), [ids(late.slice(1)), true])
    assert.deepEqual(await walk(store, 2, except), [[], false])
  })

  on('a walk that keeps the place changes nothing for the next one', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    const [greedy, modest] = [of('greedy', 2), of('modest', 2)]
    await queue(store, DEAD, ...greedy, ...modest)
    const [walked] = await walk(store, 1, { exceptAccounts: ['greedy'], keepsPlace: true })
    assert.deepEqual(walked, ids(modest.slice(0, 1)))
    assert.deepEqual(ids(await claimDead(store, 9)), ids([...greedy, ...modest.slice(1)]))
  })

  on('a walk passes over jobs that it is not to claim, and the next one begins at them', async (store) => {
    const jobs = several(4)
    await queue(store, DEAD, ...jobs)
    const [first = '', second, third = '', last] = ids(jobs)
    const except = { exceptJobs: [first, third, newJob().id] }
    assert.deepEqual(await walk(store, 1, except), [[second], true])
    assert.deepEqual(await walk(store, 9, except), [[last], false])
    assert.deepEqual(await walk(store, 9, except), [[], false])
    assert.deepEqual(ids(await claimDead(store, 9)), [first, third])
  })

  on('a job that is queued or released behind a place is found by the next walk', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    await queue(store, DEAD, ...of('greedy', 20))
    const [held] = await claimDead(store, 2)
    assert.ok(held)
    const past = { exceptAccounts: ['greedy'] }
    assert.deepEqual((await walk(store, 5, past))[0], [])
    const late = newJob({ account: 'modest' })
    await queue(store, DEAD, late)
    assert.deepEqual((await walk(store, 5, past))[0], [late.id])
    await store.release('node-a', [claimOf(held)])
    assert.equal((await claimOne(store)).id, held.id)
  })

  on('suspects are in no walk and in no lane, and their routes are not listed', async (store) => {
    const [crashed, other] = [newJob(), newJob()]
    await queue(store, DEAD, crashed)
    await claimNext(store, 'dead', 1, now.ms, DEAD)
    await store.rescue('node-a', now.ms)
    assert.deepEqual((await store.queued()).routes, [])
    await queue(store, DEAD, other)
    assert.deepEqual(ids(await claimLane(store, 'acme', 5, DEAD)), [other.id])
    assert.deepEqual(await claimDead(store, 5), [])
    assert.deepEqual(ids(await claimSuspects(store, 'node-a')), [crashed.id])
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
    const again = await claimOne(store)
    assert.deepEqual(again, { ...held, attempt: 2, earlierJson: '{"calls":3}' })
    assert.equal(await settle(store, held), 'stale')
    assert.equal(await store.settle(settlement(claimOf(again))), 'settled')
    assert.deepEqual(await store.depth(), { ...EMPTY, assigned: 1 })
  })

  on('lets only the holder of a job release it to wait', async (store) => {
    const claim = { ...(await addHeld(store)), attempt: 1 }
    await store.releaseWaiting('node-b', [waiting(claim)])
    await store.releaseWaiting('node-a', [waiting({ ...claim, attempt: 2 })])
    assert.equal((await store.depth()).waiting, 0)
    await store.releaseWaiting('node-a', [waiting(claim)])
    await store.releaseWaiting('node-a', [waiting(claim, { earlierJson: '{}' })])
    assert.equal((await claimOne(store)).earlierJson, '{"calls":3}')
  })

  on(
    'keeps the route and the earlier runs of a job through releases and crashes',
    async (store, t, place) => {
      await queue(store, DEAD, newJob())
      await store.releaseWaiting('node-a', [waiting(await claimOne(store))])
      await store.release('node-a', [claimOf(await claimOne(store))])
      assert.equal((await claimOne(store)).earlierJson, '{"calls":3}')
      await store.close()
      const next = await place.open()
      t.after(() => next.close())
      await next.rescue('node-b', now.ms)
      const [fourth] = await claimSuspects(next, 'node-b')
      assert.deepEqual([fourth?.earlierJson, fourth?.crashCount], ['{"calls":3}', 1])
    },
  )
}
