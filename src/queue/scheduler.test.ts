/** What a node claims next: routes, lanes, newcomers and limits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newJob } from '../../test/store-contract/fixtures.ts'
import { ByteShare } from '../sharing/byte-budget.ts'
import type { ClaimFrom } from '../store/store.ts'
import type { RouteLimit } from '../upstreams/routes.ts'
import { type Place, Scheduler } from './scheduler.ts'

const FIRST = 'one/model'
const SECOND = 'two/model'
const NONE = { jobs: [], mayHaveMore: false }
const CLOSED: RouteLimit = { allowance: 0, failedJobs: [], unavailableSinceMs: 0, trouble: null }

interface World {
  readonly slots?: number
  readonly bytes?: number
  /** The room of each route; routes without an entry have unlimited room. */
  readonly room?: Record<string, number>
}

function start({ slots = 64, bytes = 1e9, room = {} }: World = {}) {
  const limited = new Map<string, RouteLimit>()
  const limitedAccounts = new Map<string, Map<string, RouteLimit>>()
  const rooms = new Map(Object.entries(room))
  const routes = {
    routeOf: ({ model }: { model: string }) => model,
    limited,
    limitedAccounts,
    isRated: () => false,
    room: (route: string) => rooms.get(route) ?? Number.POSITIVE_INFINITY,
    watch: () => {},
  }
  const scheduler = new Scheduler(slots, new ByteShare(bytes, true), routes, 3)
  const jobs = (count: number, route: string, account: string) =>
    Array.from({ length: count }, () => ({
      ...newJob({ account, model: route }),
      attempt: 1,
      crashCount: 0,
      crashedAlone: false,
    }))
  /** Makes the next claim, with `found` as its result. Returns where the claim looked, and the places of the jobs. */
  const claim = (
    found: ReturnType<typeof jobs> = [],
    mayHaveMore = false,
  ): { from: ClaimFrom; limit: number; places: Place[] } => {
    const planned = scheduler.next()
    assert.ok(planned !== null, 'no claim is planned')
    scheduler.begin(planned)
    const places = scheduler.claimed(planned, { jobs: found, mayHaveMore })
    return { from: planned.from, limit: planned.limit, places }
  }
  return { scheduler, limited, limitedAccounts, rooms, jobs, claim }
}

const walk = (route: string, extra: object = {}): ClaimFrom => ({
  of: 'route',
  route,
  exceptAccounts: [],
  exceptJobs: [],
  keepsPlace: false,
  ...extra,
})

test('routes are claimed in turns, and one that has nothing more is not claimed again', () => {
  const { scheduler, claim, jobs } = start()
  assert.equal(scheduler.next(), null)
  scheduler.queued(FIRST, null)
  scheduler.queued(SECOND, null)
  assert.deepEqual(claim(jobs(1, FIRST, 'a'), true).from, walk(FIRST))
  assert.deepEqual(claim(jobs(1, SECOND, 'a')).from, walk(SECOND))
  assert.deepEqual(claim(jobs(1, FIRST, 'a')).from, walk(FIRST))
  assert.equal(scheduler.next(), null)
})

test('jobs that were queued during a claim that found none are claimed', () => {
  const { scheduler } = start()
  scheduler.queued(FIRST, 'a')
  const planned = scheduler.next()
  assert.ok(planned)
  scheduler.begin(planned)
  scheduler.queued(FIRST, 'a')
  scheduler.claimed(planned, NONE)
  assert.deepEqual(scheduler.next()?.from, walk(FIRST))
})

test('a node claims no more of a route than its model server can start', () => {
  const { scheduler, claim, jobs, rooms } = start({ room: { [FIRST]: 9 } })
  scheduler.queued(FIRST, 'a')
  const { limit, places } = claim(jobs(9, FIRST, 'a'), true)
  assert.equal(limit, 9)
  assert.equal(scheduler.next()?.isOfNewcomer, true)
  claim()
  assert.equal(scheduler.next(), null)
  // The jobs call, so the upstream counts them.
  rooms.set(FIRST, 0)
  for (const place of places) scheduler.arrived(place)
  assert.equal(scheduler.next(), null)
  rooms.set(FIRST, 1)
  assert.equal(scheduler.next()?.limit, 1)
})

test('a job is handed off if nothing of its route is queued and there is room; one that is awaited needs no room', () => {
  const { scheduler, rooms, jobs, claim } = start({ room: { [FIRST]: 1 } })
  const [one, two, three] = jobs(3, FIRST, 'a')
  assert.ok(one && two && three)
  assert.notEqual(scheduler.tryTake(one, false), null)
  assert.equal(scheduler.tryTake(two, false), null)
  assert.notEqual(scheduler.tryTake(two, true), null)
  rooms.set(FIRST, 9)
  scheduler.queued(FIRST, 'b')
  assert.equal(scheduler.tryTake(three, true), null, 'it would overtake')
  claim()
  assert.notEqual(scheduler.tryTake(three, true), null)
})

test('while the model server is busy, an account that holds nothing there may send it a job', () => {
  const { scheduler, claim, jobs, rooms } = start({ room: { [FIRST]: 2 } })
  scheduler.queued(FIRST, 'many')
  const { places } = claim(jobs(2, FIRST, 'many'), true)
  rooms.set(FIRST, -3)
  for (const place of places) scheduler.arrived(place)
  const probe = claim()
  assert.deepEqual(
    [probe.from, probe.limit],
    [walk(FIRST, { exceptAccounts: ['many'], keepsPlace: true }), 1],
  )
  assert.equal(scheduler.next(), null, 'there was none')
  scheduler.queued(FIRST, 'single')
  assert.deepEqual(
    claim(jobs(1, FIRST, 'single')).from,
    walk(FIRST, { exceptAccounts: ['many'], keepsPlace: true }),
  )
  assert.deepEqual(
    scheduler.next()?.from,
    walk(FIRST, { exceptAccounts: ['many', 'single'], keepsPlace: true }),
  )
})

test('newcomers hold no more than eight jobs for a busy model server', () => {
  const { scheduler, claim, jobs } = start({ room: { [FIRST]: 0 } })
  scheduler.queued(FIRST, null)
  const places = Array.from({ length: 8 }, (_, at) => claim(jobs(1, FIRST, `account ${at}`), true).places)
  assert.equal(scheduler.next(), null)
  for (const place of places[0] ?? []) scheduler.calls(place)
  assert.equal(scheduler.next()?.isOfNewcomer, true)
})

test('urgent jobs of a limited route start no faster than it is allowed', () => {
  const { scheduler, limited, jobs } = start({ room: { [FIRST]: 0 } })
  limited.set(FIRST, { ...CLOSED, allowance: 2 })
  scheduler.limitsChanged()
  for (const job of jobs(5, FIRST, 'a')) scheduler.queuedJob({ ...job, priority: 'high' })
  scheduler.limitsChanged()
  assert.equal(scheduler.next()?.limit, 2)
})

test('the reserve of slots is for accounts that hold none', () => {
  const { scheduler, claim, jobs } = start({ slots: 32 })
  scheduler.queued(FIRST, 'many')
  assert.equal(claim(jobs(30, FIRST, 'many'), true).limit, 30)
  assert.deepEqual(scheduler.heldBack(), [{ account: 'many', reason: 'slots' }])
  const { from } = claim(jobs(1, FIRST, 'single'))
  assert.deepEqual(from, walk(FIRST, { exceptAccounts: ['many'], keepsPlace: true }))
})

test('an account whose last job ended on one route gets a reserved slot for its job on another', () => {
  const { scheduler, claim, jobs } = start({ slots: 32 })
  scheduler.queued(FIRST, null)
  claim(jobs(30, FIRST, 'many'))
  scheduler.queued(FIRST, 'single')
  const [place] = claim(jobs(1, FIRST, 'single')).places
  assert.ok(place)
  scheduler.queued(SECOND, 'single')
  const looked = [claim(), claim()].map(({ from }) => from.of === 'route' && from.route)
  assert.deepEqual(looked.toSorted(), [FIRST, SECOND])
  assert.equal(scheduler.next(), null)
  scheduler.free(place, true)
  const from = [claim().from, claim().from]
  assert.deepEqual(from[1], walk(SECOND, { exceptAccounts: ['many'], keepsPlace: true }))
})

test('an account whose calls fail waits, and those of others are neither delayed nor queued', () => {
  const { scheduler, limitedAccounts, claim, jobs } = start()
  limitedAccounts.set(FIRST, new Map([['bad', CLOSED]]))
  scheduler.limitsChanged()
  scheduler.queued(FIRST, 'bad')
  assert.equal(scheduler.next(), null)
  const [bad] = jobs(1, FIRST, 'bad')
  const [good] = jobs(1, FIRST, 'good')
  assert.ok(bad && good)
  assert.equal(scheduler.tryTake(bad, true), null)
  assert.notEqual(scheduler.tryTake(good, true), null)
  scheduler.queued(FIRST, 'good')
  assert.deepEqual(claim().from, walk(FIRST, { exceptAccounts: ['bad'] }))
  limitedAccounts.clear()
  scheduler.limitsChanged()
  const lane = { of: 'account', route: FIRST, account: 'bad', exceptJobs: [] }
  assert.deepEqual(claim(jobs(3, FIRST, 'bad')).from, lane)
  assert.equal(scheduler.next(), null)
})

test('the trial of an account prefers a job that did not fail last', () => {
  const { scheduler, limitedAccounts, claim } = start()
  limitedAccounts.set(FIRST, new Map([['bad', { ...CLOSED, allowance: 1, failedJobs: ['failed'] }]]))
  scheduler.limitsChanged()
  scheduler.queued(FIRST, 'bad')
  const lane = { of: 'account', route: FIRST, account: 'bad' }
  assert.deepEqual(claim().from, { ...lane, exceptJobs: ['failed'] })
  assert.deepEqual(claim().from, { ...lane, exceptJobs: [] })
  assert.equal(scheduler.next(), null)
})

test('the trial of an account gets the job that failed last if there is no other, also while others have queued jobs', () => {
  const { scheduler, limitedAccounts, jobs } = start()
  limitedAccounts.set(FIRST, new Map([['bad', { ...CLOSED, allowance: 1, failedJobs: ['failed'] }]]))
  scheduler.limitsChanged()
  scheduler.queued(FIRST, 'bad')
  scheduler.queued(FIRST, 'good')
  const from = Array.from({ length: 4 }, () => {
    const planned = scheduler.next()
    assert.ok(planned)
    const isWalk = planned.from.of === 'route'
    scheduler.begin(planned)
    scheduler.claimed(planned, { jobs: jobs(isWalk ? 1 : 0, FIRST, 'good'), mayHaveMore: isWalk })
    return planned.from
  })
  const lane = { of: 'account', route: FIRST, account: 'bad' }
  assert.deepEqual(
    from.filter(({ of }) => of === 'account'),
    [
      { ...lane, exceptJobs: ['failed'] },
      { ...lane, exceptJobs: [] },
    ],
  )
})

test('a limited route starts as many jobs as it is allowed, first of accounts whose calls do not fail', () => {
  const { scheduler, limited, limitedAccounts, claim, jobs } = start()
  limited.set(FIRST, { ...CLOSED, allowance: 1, failedJobs: ['failed'] })
  limitedAccounts.set(FIRST, new Map([['bad', { ...CLOSED, allowance: 1 }]]))
  scheduler.limitsChanged()
  scheduler.queued(FIRST, null)
  scheduler.queued(FIRST, 'bad')
  const from = walk(FIRST, { exceptAccounts: ['bad'], exceptJobs: ['failed'], keepsPlace: true })
  assert.deepEqual(claim().from, from)
  assert.deepEqual(claim().from, walk(FIRST, { exceptAccounts: ['bad'] }))
  const { places } = claim(jobs(1, FIRST, 'bad'), true)
  assert.equal(scheduler.next(), null)
  for (const place of places) scheduler.free(place, true)
  assert.notEqual(scheduler.next(), null)
})

test('while a lane has jobs, it takes turns with the walks of its route', () => {
  const { scheduler, limitedAccounts, claim, jobs } = start()
  limitedAccounts.set(FIRST, new Map([['bad', CLOSED]]))
  scheduler.limitsChanged()
  scheduler.queued(FIRST, 'bad')
  scheduler.queued(FIRST, 'good')
  limitedAccounts.clear()
  scheduler.limitsChanged()
  const kinds = Array.from({ length: 4 }, () => claim(jobs(1, FIRST, 'bad'), true).from.of)
  assert.deepEqual(kinds.toSorted(), ['account', 'account', 'route', 'route'])
})

test('an account that holds its part of the memory is passed over until it has less', () => {
  const { scheduler, claim, jobs } = start({ slots: 1000, bytes: 1_000_000 })
  scheduler.queued(FIRST, 'many')
  const places: Place[] = []
  while (scheduler.next()?.from.of === 'route' && places.length < 200) {
    const { from, places: taken } = claim(jobs(10, FIRST, 'many'), true)
    if (from.of === 'route' && from.exceptAccounts.includes('many')) break
    places.push(...taken)
  }
  assert.deepEqual(scheduler.heldBack(), [{ account: 'many', reason: 'memory' }])
  for (const place of places) scheduler.free(place, true)
  assert.deepEqual(scheduler.heldBack(), [])
  assert.deepEqual(scheduler.next()?.from, { of: 'account', route: FIRST, account: 'many', exceptJobs: [] })
})

test('suspects are claimed as a group of their own, except those of routes that are limited', () => {
  const { scheduler, limited, claim, jobs } = start()
  limited.set(SECOND, CLOSED)
  scheduler.limitsChanged()
  scheduler.suspects.found({ queued: 5, mostCrashes: 2, withMost: 4 })
  scheduler.queued(FIRST, 'a')
  const { from, limit, places } = claim(jobs(2, FIRST, 'a'))
  assert.deepEqual(
    [from, limit],
    [{ of: 'suspects', crashCount: 2, maxCrashCount: 3, exceptRoutes: [SECOND] }, 2],
  )
  assert.deepEqual(
    places.map(({ isSuspect }) => isSuspect),
    [true, true],
  )
  assert.deepEqual(claim().from, walk(FIRST))
  for (const place of places) scheduler.free(place, true)
  assert.equal(claim(jobs(1, FIRST, 'a')).limit, 2, 'half of those that ran in the crash, and no more')
})
