/** Starts a worker and an enqueuer on a SQLite store. The test decides when executions end. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { ClaimedJob, Job } from '../../src/job/job.ts'
import type { StopSignal } from '../../src/job/stop.ts'
import type { AfterSettlement, StoredResult } from '../../src/queue/after-settlement.ts'
import { Enqueuer } from '../../src/queue/enqueue.ts'
import type { ExecutionEvents } from '../../src/queue/execute.ts'
import type { ExecutionResult } from '../../src/queue/execution-result.ts'
import { earlierRunsJson, NO_RUNS } from '../../src/queue/execution-result.ts'
import { Worker } from '../../src/queue/worker.ts'
import { ByteShare } from '../../src/sharing/byte-budget.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Settled, Store } from '../../src/store/store.ts'
import { NO_LIMITS } from '../../src/upstreams/routes.ts'
import { FakeClock } from '../fake-clock.ts'
import { newJob } from '../store-contract/fixtures.ts'
import { addAccounts } from '../store-contract/steps.ts'
import { AwaitedList } from './awaited-list.ts'

export const NODE = 'node-a'

interface TestExecution {
  readonly job: ClaimedJob
  readonly signal: StopSignal
  readonly events: ExecutionEvents
  end(contentJson?: string): void
  endReleased(): void
  endWaiting(): void
  throwUp(): void
}

export function completed(contentJson: string): ExecutionResult {
  return {
    outcome: { status: 'completed', contentJson },
    usage: { target: null, input_tokens: 0, output_tokens: 0, calls: 0, cache_hit: false, repaired: false },
    receipt: { form: 'text', calls: [] },
    cache: null,
  }
}

const WAIT = { route: '', earlierJson: earlierRunsJson(NO_RUNS), sinceMs: 0, waitedMs: 0 }

export async function start(
  t: TestContext,
  concurrency = 2,
  wrap: (store: Store) => Store = (store) => store,
  maxJobBytes = 1_000_000_000,
) {
  const folder = await mkdtemp(join(tmpdir(), 'parley-worker-'))
  const clock = new FakeClock()
  const onFatal = (error: Error) => {
    throw error
  }
  const options = { path: join(folder, 'p.db'), maxQueued: 1000, nowMs: () => clock.nowMs(), onFatal }
  const store = await openSqliteStore(options)
  await addAccounts(store, 'acme')
  t.after(async () => {
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })
  const executions = new AwaitedList<TestExecution>()
  const settled = new AwaitedList<[string, Settled, StoredResult]>()
  const errors = new AwaitedList<string>()
  const afterSettlement: AfterSettlement = (job, result, how) => settled.add([job.id, how, result])
  const worker = new Worker({
    store: wrap(store),
    node: NODE,
    clock,
    concurrency,
    bytes: new ByteShare(maxJobBytes, true),
    runTimeoutMs: 600_000,
    routes: {
      routeOf: () => '',
      ...NO_LIMITS,
      isRated: () => false,
      room: () => Number.POSITIVE_INFINITY,
      watch: () => {},
    },
    patienceMs: 3_600_000,
    maxAttempts: 3,
    execute: (job, signal, _cacheKey, events) =>
      new Promise((resolve, reject) => {
        executions.add({
          job,
          signal,
          events: events ?? { arrived: () => {} },
          end: (contentJson = '"done"') => resolve(completed(contentJson)),
          endReleased: () => resolve(null),
          endWaiting: () => resolve({ outcome: null, wait: WAIT }),
          throwUp: () => reject(new TypeError('a bug')),
        })
        signal.listen({
          onStop: () => {
            if (signal.reason !== 'timeout') resolve(null)
          },
        })
      }),
    afterSettlement,
    metrics: { started: () => {} },
    onSuspects: () => {},
    onOverBudget: () => {},
    onError: (message) => errors.add(message),
  })
  const enqueuer = new Enqueuer({
    store: wrap(store),
    worker,
    node: NODE,
    clock,
    stepOf: () => 1000,
    routeOf: () => '',
    cacheKeyOf: () => null,
    metrics: { started: () => {} },
    afterSettlement,
    budget: { added: () => {} },
  })
  const enqueue = (...jobs: Job[]) => enqueuer.enqueue(jobs, { idempotency: null, awaited: false })
  return { store, clock, worker, enqueuer, enqueue, executions, settled, errors }
}

export async function startOne(t: TestContext, concurrency = 2, wrap?: (store: Store) => Store) {
  const started = await start(t, concurrency, wrap)
  started.worker.wake()
  const job = newJob()
  await started.enqueue(job)
  const [run = assert.fail('nothing runs')] = await started.executions.atLeast(1)
  return { ...started, job, run }
}

export const replacing =
  <Name extends 'accept' | 'settle' | 'releaseWaiting'>(name: Name, make: (store: Store) => Store[Name]) =>
  (store: Store): Store => {
    const method = make(store)
    return new Proxy(store, {
      get(target, property) {
        if (property === name) return method
        const member: unknown = Reflect.get(target, property)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }

export const claimQueued = async (store: Pick<Store, 'claim'>, node: string, nowMs: number) => {
  const from = { of: 'route', route: '', exceptAccounts: [], exceptJobs: [], keepsPlace: false } as const
  return (await store.claim(node, 5, nowMs, from)).jobs
}

export const status = async (store: Store, { id }: Job) =>
  (await store.read('acme', id, { nowMs: 0, retentionMs: 1e15 }))?.status ?? null
