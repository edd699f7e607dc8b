/** Takes common steps of a store's tests: adds accounts and jobs, claims jobs and settles them. */
import assert from 'node:assert/strict'
import type { ClaimedJob, Job } from '../../src/job/job.ts'
import type { Claimed, Settled, Settlement, Store } from '../../src/store/store.ts'
import {
  type AcceptanceFields,
  acceptance,
  type JobFields,
  newJob,
  now,
  OF_ROUTE,
  START_MS,
  SUSPECTS,
  settlement,
} from './fixtures.ts'

type Accepting = Pick<Store, 'accept'>

/** Stores accept jobs only of accounts that exist. */
export async function addAccounts(
  store: Pick<Store, 'createKey'>,
  ...names: readonly string[]
): Promise<void> {
  const times = { createdAtMs: START_MS, expiresAtMs: null }
  await Promise.all(
    names.map((name) => {
      const key = { id: `key of ${name}`, hash: `hash of ${name}`, account: name, ...times }
      return store.createKey({ ...key, tier: 'user_max', secret: 'whsec_1' })
    }),
  )
}

/** The jobs must not be rejected. They are queued unless `over` hands them off. */
export async function accept<const Jobs extends readonly Job[]>(
  store: Accepting,
  jobs: Jobs,
  over: AcceptanceFields = {},
): Promise<Jobs> {
  const accepted = await store.accept(acceptance(jobs, over))
  assert.equal(accepted.kind, 'accepted')
  return jobs
}

export async function addQueued(store: Accepting, fields: JobFields = {}): Promise<Job> {
  const [job] = await accept(store, [newJob(fields)])
  return job
}

export async function addHeld(store: Accepting, fields: JobFields = {}): Promise<Job> {
  const [job] = await accept(store, [newJob(fields)], { handedOff: true })
  return job
}

export async function addEnded(
  store: Pick<Store, 'accept' | 'settle'>,
  fields: JobFields = {},
  over: Partial<Settlement> = {},
): Promise<Job> {
  const job = await addHeld(store, fields)
  assert.equal(await settle(store, job, over), 'settled')
  return job
}

/** The job is handed off to the node of its settlement, and has ended. */
export async function storeEnded(
  store: Pick<Store, 'accept' | 'settle'>,
  job: Job,
  ended = settlement({ jobId: job.id, attempt: 1 }),
): Promise<void> {
  await store.accept(acceptance([job], { handedOff: true, node: ended.node, nowMs: job.createdAtMs }))
  await store.settle(ended)
}

export function settle(
  store: Pick<Store, 'settle'>,
  job: string | Pick<Job, 'id'>,
  over: Partial<Settlement> = {},
): Promise<Settled> {
  const jobId = typeof job === 'string' ? job : job.id
  return store.settle(settlement({ jobId, attempt: 1 }, over))
}

export async function claimNext(
  store: Pick<Store, 'claim'>,
  node: string,
  limit: number,
  nowMs = now.ms,
  route = '',
): Promise<ClaimedJob[]> {
  return small(await store.claim(node, limit, nowMs, { ...OF_ROUTE, route }))
}

export async function claimLane(store: Pick<Store, 'claim'>, account: string, limit: number, route = '') {
  return small(await store.claim('node-a', limit, now.ms, { of: 'account', route, account, exceptJobs: [] }))
}

/** With a `crashCount` of 1000, the `maxCrashCount` of `SUSPECTS`, claims the suspects that must fail. */
export async function claimSuspects(
  store: Pick<Store, 'claim'>,
  node: string,
  crashCount = 1,
): Promise<ClaimedJob[]> {
  return small(await store.claim(node, 1000, now.ms, { ...SUSPECTS, crashCount }))
}

export async function claimAll(
  store: Pick<Store, 'claim' | 'queued' | 'queuedSuspects'>,
  node: string,
  nowMs = now.ms,
): Promise<ClaimedJob[]> {
  const jobs: ClaimedJob[] = []
  for (;;) {
    const { queued, mostCrashes } = await store.queuedSuspects()
    if (queued === 0) break
    jobs.push(...small(await store.claim(node, 10_000, nowMs, { ...SUSPECTS, crashCount: mostCrashes })))
  }
  for (const route of (await store.queued()).routes)
    jobs.push(...(await claimNext(store, node, 10_000, nowMs, route)))
  return jobs
}

function small({ jobs }: Claimed): ClaimedJob[] {
  return jobs.map((job) => {
    if ('textBytes' in job) throw new Error('the texts of the job did not come with the claim')
    return job
  })
}
