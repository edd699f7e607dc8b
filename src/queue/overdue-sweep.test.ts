import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { NO_USAGE } from '../job/job.ts'
import type { FailedJob, Overdue } from '../store/store.ts'
import type { RouteLimit } from '../upstreams/routes.ts'
import { createOverdueSweep, failPastDeadline } from './overdue-sweep.ts'

const LIMIT: RouteLimit = { allowance: 0, failedJobs: [], unavailableSinceMs: 5, trouble: null }

/** @param overdue how many jobs are overdue in each queue that the sweep searches */
function start(overdue: number) {
  const searches: Overdue[] = []
  const left = new Map<string, number>()
  const ended: [string, boolean][] = []
  const options = {
    clock: new FakeClock(),
    store: {
      failOverdue: async (which: Overdue, _nowMs: number, limit: number): Promise<FailedJob[]> => {
        searches.push(which)
        const key = JSON.stringify(which)
        const count = Math.min(limit, left.get(key) ?? overdue)
        left.set(key, (left.get(key) ?? overdue) - count)
        const job = { account: 'acme', model: 'm', createdAtMs: 0, usage: NO_USAGE }
        return Array.from({ length: count }, (_, at) => ({ ...job, jobId: `${at}`, hasCallback: at === 0 }))
      },
    },
    afterSettlement: ({ id, callbackJson }: { id: string; callbackJson: string | null }) =>
      void ended.push([id, callbackJson !== null]),
  }
  return { searches, ended, options }
}

test('all jobs that are overdue fail, however many, and each is reported', async () => {
  const { searches, ended, options } = start(600)
  await failPastDeadline(options)
  assert.equal(ended.length, 600)
  assert.equal(ended.filter(([, hasCallback]) => hasCallback).length, searches.length)
})

test('it looks at the queues of each limited route, and of each account that is limited there', async () => {
  const { searches, options } = start(0)
  const onError = (message: string) => assert.fail(message)
  const limited = new Map([
    ['a', LIMIT],
    ['b', { ...LIMIT, unavailableSinceMs: null }],
  ])
  const limitedAccounts = new Map([['c', new Map([['acme', { ...LIMIT, unavailableSinceMs: 7 }]])]])
  const queuesOf = (route: string) => [`${route} !high`, route]
  const routes = { limited, limitedAccounts }
  await createOverdueSweep({ ...options, routes, patienceMs: 60_000, queuesOf, onError })()
  assert.deepEqual(
    searches.map((one) => one.route !== null && [one.route, one.account, one.unavailableSinceMs]),
    [
      ['a !high', null, 5],
      ['a', null, 5],
      ['c !high', 'acme', 7],
      ['c', 'acme', 7],
    ],
  )
})
