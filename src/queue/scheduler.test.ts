/** Tests what a node claims next, with routes, lanes, newcomers and limits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newJob } from '../../test/store-contract/fixtures.ts'
import { ByteShare } from '../sharing/byte-budget.ts'
import type { ClaimFrom } from '../store/store.ts'
import type { RouteLimit } from '../upstreams/routes.ts'
import { type Place, Scheduler } from './scheduler.ts'

const FIRST = 'one/model'
const SECOND = 'two/model'
const CLOSED: RouteLimit = { allowance: 0, failedJobs: [], unavailableSinceMs: 0, trouble: null }

interface World {
  readonly slots?: number
  readonly bytes?: number
  /** The first route has this room; unlimited if absent. */
  readonly room?: number
}

/**
 * Describes where a claim looks, such as `one/model except many`. `keep` stands for a claim that keeps its place in the route,
 * `bad at one/model` for the lane of an account, and `not x` for a job that is left out.
 */
function textOf(from: ClaimFrom): string {
  if (from.of === 'suspects') {
    return `${from.crashCount} of ${from.maxCrashCount} crashes, no ${from.exceptRoutes}`
  }
  const jobs = from.exceptJobs.map((job) => ` not ${job}`).join('')
  if (from.of === 'account') return `${from.account} at ${from.route}${jobs}`
  const accounts = from.exceptAccounts.length > 0 ? ` except ${from.exceptAccounts.join(', ')}` : ''
  return `${from.route}${accounts}${jobs}${from.keepsPlace ? ' keep' : ''}`
}

function start({ slots = 64, bytes = 1e9, room = Number.POSITIVE_INFINITY }: World = {}) {
  const limits = {
    limited: new Map<string, RouteLimit>(),
    limitedAccounts: new Map<string, Map<string, RouteLimit>>(),
  }
  const rooms = new Map([[FIRST, room]])
  const routes = {
    ...limits,
    routeOf: ({ model }: { model: string }) => model,
    isRated: () => false,
    room: (route: string) => rooms.get(route) ?? Number.POSITIVE_INFINITY,
    watch: () => {},
  }
  const scheduler = new Scheduler(slots, new ByteShare(bytes, true), routes, 3)
  const jobs = (account: string, count: number, route = FIRST) =>
    Array.from({ length: count }, () => ({
      ...newJob({ account, model: route }),
      attempt: 1,
      crashCount: 0,
      crashedAlone: false,
    }))
  const limit = (route: string, to: RouteLimit) => {
    limits.limited.set(route, to)
    scheduler.limitsChanged()
  }
  const limitAccount = (account: string, to: RouteLimit | null) => {
    if (to === null) limits.limitedAccounts.clear()
    else limits.limitedAccounts.set(FIRST, new Map([[account, to]]))
    scheduler.limitsChanged()
  }
  type Jobs = ReturnType<typeof jobs>
  /** Makes the next claim, which finds the given jobs. Returns what the claim asked for, and the places of the jobs. */
  const claim = (found: Jobs | ((from: string) => Jobs) = [], mayHaveMore = false) => {
    const planned = scheduler.next()
    assert.ok(planned !== null, 'no claim is planned')
    scheduler.begin(planned)
    const from = textOf(planned.from)
    const all = typeof found === 'function' ? found(from) : found
    const places = scheduler.claimed(planned, { jobs: all, mayHaveMore: mayHaveMore && all.length > 0 })
    return { from, limit: planned.limit, places }
  }
  /** Returns what the next claim would ask for; null if none is planned. */
  const next = () => {
    const planned = scheduler.next()
    return planned && textOf(planned.from)
  }
  const free = (places: readonly Place[]) => {
    for (const place of places) scheduler.free(place, true)
  }
  return { scheduler, rooms, jobs, limit, limitAccount, claim, next, free }
}

test('routes are claimed in turns, and one that has nothing more is not claimed again', () => {
  const { scheduler, claim, next, jobs } = start()
  assert.equal(next(), null)
  scheduler.queued(FIRST, null)
  scheduler.queued(SECOND, null)
  assert.equal(claim(jobs('a', 1), true).from, FIRST)
  assert.equal(claim(jobs('a', 1, SECOND)).from, SECOND)
  assert.equal(claim(jobs('a', 1)).from, FIRST)
  assert.equal(next(), null)
})

test('jobs that were queued during a claim that found none are claimed', () => {
  const { scheduler, next } = start()
  scheduler.queued(FIRST, 'a')
  const planned = scheduler.next()
  assert.ok(planned)
  scheduler.begin(planned)
  scheduler.queued(FIRST, 'a')
  scheduler.claimed(planned, { jobs: [], mayHaveMore: false })
  assert.equal(next(), FIRST)
})

test('a node claims no more of a route than its model server can start', () => {
  const { scheduler, claim, next, jobs, rooms } = start({ room: 9 })
  scheduler.queued(FIRST, 'a')
  const { limit, places } = claim(jobs('a', 9), true)
  assert.equal(limit, 9)
  assert.equal(scheduler.next()?.isOfNewcomer, true)
  claim()
  assert.equal(next(), null)
  // The jobs have begun their calls, so the upstream counts them.
  rooms.set(FIRST, 0)
  for (const place of places) scheduler.arrived(place)
  assert.equal(next(), null)
  rooms.set(FIRST, 1)
  assert.equal(scheduler.next()?.limit, 1)
})

test('a job is handed off if nothing of its route is queued and there is room; one that is awaited needs no room', () => {
  const { scheduler, rooms, jobs, claim } = start({ room: 1 })
  const [one, two, three] = jobs('a', 3)
  assert.ok(one && two && three)
  const isTaken = (job: typeof one, isAwaited: boolean) => scheduler.tryTake(job, isAwaited) !== null
  assert.deepEqual([isTaken(one, false), isTaken(two, false), isTaken(two, true)], [true, false, true])
  rooms.set(FIRST, 9)
  scheduler.queued(FIRST, 'b')
  assert.equal(isTaken(three, true), false, 'it would overtake')
  claim()
  assert.equal(isTaken(three, true), true)
})

test('while the model server is busy, an account that holds nothing there may send it a job', () => {
  const { scheduler, claim, next, jobs, rooms } = start({ room: 2 })
  scheduler.queued(FIRST, 'many')
  const { places } = claim(jobs('many', 2), true)
  rooms.set(FIRST, -3)
  for (const place of places) scheduler.arrived(place)
  const { from, limit } = claim()
  assert.deepEqual([from, limit], [`${FIRST} except many keep`, 1])
  assert.equal(next(), null, 'there was none')
  scheduler.queued(FIRST, 'single')
  assert.equal(claim(jobs('single', 1)).from, `${FIRST} except many keep`)
  assert.equal(next(), `${FIRST} except many, single keep`)
})

test('newcomers hold no more than eight jobs for a busy model server', () => {
  const { scheduler, claim, next, jobs } = start({ room: 0 })
  scheduler.queued(FIRST, null)
  const places = Array.from({ length: 8 }, (_, at) => claim(jobs(`account ${at}`, 1), true).places)
  assert.equal(next(), null)
  for (const place of places[0] ?? []) scheduler.calls(place)
  assert.equal(scheduler.next()?.isOfNewcomer, true)
})

test('urgent jobs of a limited route start no faster than it is allowed', () => {
  const { scheduler, limit, jobs } = start({ room: 0 })
  limit(FIRST, { ...CLOSED, allowance: 2 })
  for (const job of jobs('a', 5)) scheduler.queuedJob({ ...job, priority: 'high' })
  scheduler.limitsChanged()
  assert.equal(scheduler.next()?.limit, 2)
})

test('the reserve of slots is for accounts that hold none', () => {
  const { scheduler, claim, jobs } = start({ slots: 32 })
  scheduler.queued(FIRST, 'many')
  assert.equal(claim(jobs('many', 30), true).limit, 30)
  assert.deepEqual(scheduler.heldBack(), [{ account: 'many', reason: 'slots' }])
  assert.equal(claim(jobs('single', 1)).from, `${FIRST} except many keep`)
})

test('an account whose last job ended on one route gets a reserved slot for its job on another', () => {
  const { scheduler, claim, next, jobs, free } = start({ slots: 32 })
  scheduler.queued(FIRST, null)
  claim(jobs('many', 30))
  scheduler.queued(FIRST, 'single')
  const { places } = claim(jobs('single', 1))
  scheduler.queued(SECOND, 'single')
  const looked = [claim().from, claim().from].map((from) => from.split(' ')[0])
  assert.deepEqual(looked.toSorted(), [FIRST, SECOND])
  assert.equal(next(), null)
  free(places)
  claim()
  assert.equal(claim().from, `${SECOND} except many keep`)
})

test('an account whose calls fail waits, and those of others are neither delayed nor queued', () => {
  const { scheduler, limitAccount, claim, next, jobs } = start()
  limitAccount('bad', CLOSED)
  scheduler.queued(FIRST, 'bad')
  assert.equal(next(), null)
  const [[bad], [good]] = [jobs('bad', 1), jobs('good', 1)]
  assert.ok(bad && good)
  assert.equal(scheduler.tryTake(bad, true), null)
  assert.notEqual(scheduler.tryTake(good, true), null)
  scheduler.queued(FIRST, 'good')
  assert.equal(claim().from, `${FIRST} except bad`)
  limitAccount('bad', null)
  assert.equal(claim(jobs('bad', 3)).from, `bad at ${FIRST}`)
  assert.equal(next(), null)
})

const TRIAL = { ...CLOSED, allowance: 1, failedJobs: ['failed'] }

test('the trial of an account prefers a job that did not fail last', () => {
  const { scheduler, limitAccount, claim, next } = start()
  limitAccount('bad', TRIAL)
  scheduler.queued(FIRST, 'bad')
  assert.deepEqual([claim().from, claim().from], [`bad at ${FIRST} not failed`, `bad at ${FIRST}`])
  assert.equal(next(), null)
})

test('the trial of an account gets the job that failed last if there is no other, also while others have queued jobs', () => {
  const { scheduler, limitAccount, jobs, claim } = start()
  limitAccount('bad', TRIAL)
  scheduler.queued(FIRST, 'bad')
  scheduler.queued(FIRST, 'good')
  const from = Array.from(
    { length: 4 },
    () => claim((one) => (one.startsWith('bad') ? [] : jobs('good', 1)), true).from,
  )
  const ofLane = from.filter((one) => one.startsWith('bad'))
  assert.deepEqual(ofLane, [`bad at ${FIRST} not failed`, `bad at ${FIRST}`])
})

test('a limited route starts as many jobs as it is allowed, first of accounts whose calls do not fail', () => {
  const { scheduler, limit, limitAccount, claim, next, jobs, free } = start()
  limit(FIRST, TRIAL)
  limitAccount('bad', { ...CLOSED, allowance: 1 })
  scheduler.queued(FIRST, null)
  scheduler.queued(FIRST, 'bad')
  assert.equal(claim().from, `${FIRST} except bad not failed keep`)
  assert.equal(claim().from, `${FIRST} except bad`)
  const { places } = claim(jobs('bad', 1), true)
  assert.equal(next(), null)
  free(places)
  assert.notEqual(next(), null)
})

test('while a lane has jobs, it takes turns with the walks of its route', () => {
  const { scheduler, limitAccount, claim, jobs } = start()
  limitAccount('bad', CLOSED)
  scheduler.queued(FIRST, 'bad')
  scheduler.queued(FIRST, 'good')
  limitAccount('bad', null)
  const from = Array.from({ length: 4 }, () => claim(jobs('bad', 1), true).from)
  assert.deepEqual(from.toSorted(), [`bad at ${FIRST}`, `bad at ${FIRST}`, FIRST, FIRST])
})

test('an account that holds its part of the memory is passed over until it has less', () => {
  const { scheduler, claim, next, jobs, free } = start({ slots: 1000, bytes: 1_000_000 })
  scheduler.queued(FIRST, 'many')
  const places: Place[] = []
  while (next() === FIRST && places.length < 200) places.push(...claim(jobs('many', 10), true).places)
  assert.equal(claim(jobs('many', 10), true).from, `${FIRST} except many`)
  assert.deepEqual(scheduler.heldBack(), [{ account: 'many', reason: 'memory' }])
  free(places)
  assert.deepEqual(scheduler.heldBack(), [])
  assert.equal(next(), `many at ${FIRST}`)
})

test('suspects are claimed as a group of their own, except those of routes that are limited', () => {
  const { scheduler, limit, claim, jobs, free } = start()
  limit(SECOND, CLOSED)
  scheduler.suspects.found({ queued: 5, mostCrashes: 2, withMost: 4 })
  scheduler.queued(FIRST, 'a')
  const group = claim(jobs('a', 2))
  assert.deepEqual([group.from, group.limit], [`2 of 3 crashes, no ${SECOND}`, 2])
  assert.ok(group.places.every(({ isSuspect }) => isSuspect))
  assert.equal(claim().from, FIRST)
  free(group.places)
  assert.equal(claim(jobs('a', 1)).limit, 2, 'half of those that ran in the crash, and no more')
})
