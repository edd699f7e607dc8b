/** What a worker claims of routes that are limited. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { newJob } from '../../test/store-contract/fixtures.ts'
import { ByteShare } from '../sharing/byte-budget.ts'
import type { Claimed } from '../store/store.ts'
import type { RouteLimit } from '../upstreams/routes.ts'
import { Capacity } from './capacity.ts'
import { LimitedRoutes } from './limited-routes.ts'

const ROUTE = 'server/m'
const NOTHING = { jobs: [], tooLarge: null }

function start() {
  const limit: RouteLimit = { allowance: 4, failedJobs: [], unavailableSinceMs: null, trouble: null }
  let update = () => {}
  const routes = {
    routeOf: () => ROUTE,
    limited: new Map([[ROUTE, limit]]),
    watch: (onChange: () => void) => {
      update = onChange
    },
  }
  const capacity = new Capacity(8, new ByteShare(1_000_000))
  const limited = new LimitedRoutes({
    routes,
    clock: new FakeClock(),
    patienceMs: 1000,
    capacity,
    onChange: () => {},
  })
  update()
  return limited
}

/** Begins the next claim; the returned function ends it, having found nothing by default. */
function claim(limited: LimitedRoutes, found: Claimed = NOTHING) {
  const planned = limited.next()
  const ofRoute = planned?.bounds.ofRoute
  assert.ok(planned && ofRoute)
  const { wakeUps } = limited
  return () => limited.learn(planned, ofRoute, found, wakeUps)
}

test('a claim that finds nothing is the last until a job is queued', () => {
  const limited = start()
  claim(limited)()
  assert.equal(limited.next(), null)
  limited.queued(ROUTE)
  assert.ok(limited.next())
})

test('a claim that finds fewer jobs than it may have is not the last: those that failed, or crashed, are claimed by themselves', () => {
  const limited = start()
  claim(limited, { jobs: [{ ...newJob(), attempt: 1, crashCount: 0 }], tooLarge: null })()
  claim(limited)()
  assert.equal(limited.next(), null)
})

test('a job that is queued while a claim finds nothing is claimed', () => {
  for (const queue of [(to: LimitedRoutes) => to.queued(ROUTE), (to: LimitedRoutes) => to.mayBeQueued()]) {
    const limited = start()
    const end = claim(limited)
    queue(limited)
    end()
    assert.ok(limited.next())
  }
})
