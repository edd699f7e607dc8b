/** Shared parts of the contract's tests: jobs, acceptances and settlements to vary, and the time at which they happen. */
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import {
  type Callback,
  type ClaimedJob,
  callbackText,
  type Job,
  type Message,
  type Outcome,
  type ResponseFormat,
  type Usage,
} from '../../src/job/job.ts'
import { jobIdMaker } from '../../src/job/job-id.ts'
import type { OwnCaps } from '../../src/store/account-store.ts'
import type { Claim } from '../../src/store/node-store.ts'
import type { Acceptance, Claimed, Settlement, Store } from '../../src/store/store.ts'
import type { Lifetime } from '../parley.ts'

/** The place where the stores of one test live: `open` may be called again after a close, and finds the stored data. */
export interface Place {
  open(): Promise<Store>
}

/** Creates an empty database that lives as long as its argument. */
export type MakePlace = (t: Lifetime) => Promise<Place>

/**
 * Runs the work on an empty database, which is removed afterwards: the databases of hundreds of histories would fill the disk
 * before their test ends.
 */
export async function inPlace(makePlace: MakePlace, work: (place: Place) => Promise<void>): Promise<void> {
  const ends: (() => unknown)[] = []
  const place = await makePlace({ after: (end) => void ends.push(end) })
  try {
    await work(place)
  } finally {
    // A hook that ends a resource may add another one.
    for (let end = ends.shift(); end !== undefined; end = ends.shift()) await end()
  }
}

/** Declares a test on an empty store, which is closed after the test. */
export type On = (title: string, work: (store: Store, t: TestContext, place: Place) => Promise<void>) => void

export const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5)
export const DAY_MS = 86_400_000

/** The time that is passed to the stores; a test may advance it. */
export const now = { ms: START_MS }
const newIds = () => jobIdMaker({ nowMs: () => now.ms }, (bytes) => randomBytes(bytes).toString('hex'))
let makeId = newIds()

/** Starts over at `START_MS`: IDs only grow, so without this they would start at the latest time of earlier tests. */
export function restartTime(): void {
  now.ms = START_MS
  makeId = newIds()
}

/** Creates the accounts, so that their jobs are accepted. */
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

/** The parts that a test may vary; conversation and format as values instead of JSON text. */
export type JobFields = Partial<Omit<Job, 'messagesJson' | 'responseFormatJson' | 'callbackJson'>> & {
  readonly messages?: readonly Message[]
  readonly responseFormat?: ResponseFormat
  readonly callback?: Callback | null
}

export function newJob(fields: JobFields = {}): Job {
  const {
    messages = [{ role: 'user', content: 'Hello' }],
    responseFormat = { format: 'text' },
    callback = null,
    ...over
  } = fields
  return {
    id: makeId(),
    account: 'acme',
    tier: 'user_max',
    model: 'gpt-5-mini',
    messagesJson: JSON.stringify(messages),
    responseFormatJson: JSON.stringify(responseFormat),
    cacheTtlMs: 300_000,
    callbackJson: callback && callbackText(callback),
    createdAtMs: now.ms,
    inputTokens: 12,
    ...over,
  }
}

export function acceptance(
  jobs: readonly Job[],
  over: Partial<Acceptance> & {
    handedOff?: boolean
    step?: number
    awaited?: boolean
    route?: string
    fingerprint?: string | null
  } = {},
) {
  const { handedOff = false, step = 1000, awaited = false, route = '', fingerprint = null, ...rest } = over
  return {
    node: 'node-a',
    jobs: jobs.map((job) => ({ job, handedOff, step, awaited, route, fingerprint })),
    idempotency: null,
    nowMs: now.ms,
    ...rest,
  } satisfies Acceptance
}

/** An account without limits of its own. */
export const NO_CAPS: OwnCaps = {
  monthlyJobs: null,
  monthlyTokens: null,
  openJobs: null,
  storedBytes: null,
}

export const USAGE: Usage = {
  target: 'openai/gpt-5-mini',
  input_tokens: 3,
  output_tokens: 5,
  calls: 1,
  cache_hit: false,
  repaired: false,
}

export const COMPLETED: Outcome = { status: 'completed', contentJson: '"Hello back"' }

export function settlement(claim: Claim, over: Partial<Settlement> = {}): Settlement {
  return {
    node: 'node-a',
    jobId: claim.jobId,
    attempt: claim.attempt,
    model: 'gpt-5-mini',
    outcome: COMPLETED,
    usage: USAGE,
    receiptJson: '{}',
    cache: null,
    nowMs: now.ms,
    ...over,
  }
}

/** Stores a job that has ended: handed off to the node of its settlement. */
export async function storeEnded(
  store: Pick<Store, 'accept' | 'settle'>,
  job: Job,
  ended = settlement({ jobId: job.id, attempt: 1 }),
): Promise<void> {
  await store.accept(acceptance([job], { handedOff: true, node: ended.node, nowMs: job.createdAtMs }))
  await store.settle(ended)
}

/** Claims the next jobs of a route, in fair order. Their texts must be small. */
export async function claimNext(
  store: Pick<Store, 'claim'>,
  node: string,
  limit: number,
  nowMs = now.ms,
  route = '',
): Promise<ClaimedJob[]> {
  return small(await store.claim(node, limit, nowMs, { ...OF_ROUTE, route }))
}

/** Claims the next jobs of one account. */
export async function claimLane(store: Pick<Store, 'claim'>, account: string, limit: number, route = '') {
  return small(await store.claim('node-a', limit, now.ms, { of: 'account', route, account, exceptJobs: [] }))
}

/** Claims suspects with this crash count; with 1000 crashes, those that must fail. */
export async function claimSuspects(
  store: Pick<Store, 'claim'>,
  node: string,
  crashCount = 1,
): Promise<ClaimedJob[]> {
  return small(await store.claim(node, 1000, now.ms, { ...SUSPECTS, crashCount }))
}

/** Claims all queued jobs: suspects first, then by route. */
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

/** Parts of `ClaimFrom`: all jobs of a route, and all suspects. */
export const OF_ROUTE = {
  of: 'route',
  route: '',
  exceptAccounts: [],
  exceptJobs: [],
  keepsPlace: false,
} as const
export const SUSPECTS = { of: 'suspects', maxCrashCount: 1000, exceptRoutes: [] } as const

function small({ jobs }: Claimed): ClaimedJob[] {
  return jobs.map((job) => {
    if ('textBytes' in job) throw new Error('the texts of the job did not come with the claim')
    return job
  })
}

export const claimOf = ({ id, attempt }: Pick<ClaimedJob, 'id' | 'attempt'>): Claim => ({
  jobId: id,
  attempt,
})
export const expiry = (atMs = now.ms, retentionMs = DAY_MS) => ({ nowMs: atMs, retentionMs })
export const ids = (jobs: readonly Pick<Job, 'id'>[]) => jobs.map(({ id }) => id)
