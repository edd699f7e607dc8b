/** Shares fixtures among the contract's tests: jobs, acceptances and settlements to vary, and the time at which they happen. */
import assert from 'node:assert/strict'
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
import type { Acceptance, NewJob, Settlement, Store } from '../../src/store/store.ts'
import type { Lifetime } from '../parley.ts'

/** The stores of one test live here: `open` may be called again after a close, and finds the stored data. */
export interface Place {
  open(): Promise<Store>
}

/** Creates an empty database that exists as long as `t`. */
export type MakePlace = (t: Lifetime) => Promise<Place>

export interface OpenPlace {
  readonly place: Place
  store: Store
}

/** The databases of hundreds of histories would fill the disk before their test ends, so each is removed after the work. */
export async function inPlace(makePlace: MakePlace, work: (open: OpenPlace) => Promise<void>): Promise<void> {
  const ends: (() => unknown)[] = []
  const place = await makePlace({ after: (end) => void ends.push(end) })
  const open = { place, store: await place.open() }
  try {
    await work(open)
  } finally {
    await open.store.close()
    // A hook may add another hook while it runs.
    for (let end = ends.shift(); end !== undefined; end = ends.shift()) await end()
  }
}

export type On = (title: string, work: (store: Store, t: TestContext, place: Place) => Promise<void>) => void

export const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5)
export const DAY_MS = 86_400_000

export const now = { ms: START_MS }
const newIds = (nowMs = () => now.ms) => jobIdMaker({ nowMs }, (bytes) => randomBytes(bytes).toString('hex'))
let makeId = newIds()

export const newJobId = (atMs: number) => newIds(() => atMs)()

/** IDs only grow, so without this they would start at the latest time of earlier tests. */
export function restartTime(): void {
  now.ms = START_MS
  makeId = newIds()
}

/** A test may vary these fields. Conversation and format are values instead of JSON text. */
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

/** The fields of `NewJob` apply to all jobs of the acceptance. */
export type AcceptanceFields = Partial<Omit<Acceptance, 'jobs'>> & Partial<Omit<NewJob, 'job'>>

export function acceptance(jobs: readonly Job[], over: AcceptanceFields = {}) {
  const { handedOff = false, step = 1000, awaited = false, route = '', fingerprint = null, ...rest } = over
  return {
    node: 'node-a',
    jobs: jobs.map((job) => ({ job, handedOff, step, awaited, route, fingerprint })),
    idempotency: null,
    nowMs: now.ms,
    ...rest,
  } satisfies Acceptance
}

export function several(count: number, fields: JobFields = {}): Job[] {
  return Array.from({ length: count }, () => newJob(fields))
}

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

export const OF_ROUTE = {
  of: 'route',
  route: '',
  exceptAccounts: [],
  exceptJobs: [],
  keepsPlace: false,
} as const
export const SUSPECTS = { of: 'suspects', maxCrashCount: 1000, exceptRoutes: [] } as const

export const EMPTY = { waiting: 0, assigned: 0, oldestCreatedAtMs: null }

export const claimOf = ({ id, attempt }: Pick<ClaimedJob, 'id' | 'attempt'>): Claim => ({
  jobId: id,
  attempt,
})
export const firstClaim = ({ id }: Pick<Job, 'id'>): Claim => ({ jobId: id, attempt: 1 })
export const expiry = (atMs = now.ms, retentionMs = DAY_MS) => ({ nowMs: atMs, retentionMs })
export const jobIds = (rows: readonly { readonly jobId: string }[]) => rows.map(({ jobId }) => jobId)
export const ids = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id)

/**
 * Returns the IDs on all pages of a search that looks at everything. `read` returns the page after the ID, or the first one.
 */
export async function allPages(
  read: (afterId: string | null) => Promise<{ ids: string[]; complete: boolean; next: string | null }>,
): Promise<string[]> {
  const seen: string[] = []
  for (let after: string | null = null; ; ) {
    const page = await read(after)
    assert.equal(page.complete, true)
    seen.push(...page.ids)
    after = page.next
    if (after === null) return seen
  }
}
