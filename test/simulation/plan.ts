/**
 * Declares the plan that a seed determines: the world, and the list of all actions of callers, operators and faults, each with
 * its time. A history is a plan that was run. Shrinking removes actions, so each action is independent of the others: it refers
 * to objects by number, and does nothing if they do not exist.
 */
import type { Status } from '../../src/job/job.ts'
import type { Priority } from '../../src/job/priority.ts'

/** Says how a model server treats a job, apart from faults of the server. */
export type JobManner =
  | 'answer'
  | 'answer slowly'
  /** The answers are wrong JSON, once or always. */
  | 'wrong once'
  | 'wrong'
  /** The first answer is wrong JSON. The server is overloaded at the repair. */
  | 'wrong, then overloaded'
  /** The first answer is an error that costs tokens, as gateways report inside a 200. */
  | 'paid error once'
  /** The answer ends at the length limit of the model. */
  | 'cut off'
  | 'refuse'
  /** The server responds with 400: the request is invalid. */
  | 'invalid'
  | 'reset'
  /** The database rejects the answer. */
  | 'unstorable'
  | 'kill'
  /** The server responds with 403 each time, as a firewall in front of it does. */
  | 'forbidden'
  | 'fails'
  | 'unanswered'
  /** The server responds with 503 and a Retry-After of an hour. */
  | 'later'
  /** The call crashes the model server as long as the job's schema is sent. */
  | 'crash'
  | 'crash always'

/** A job with one of these manners fails although its model server works for other jobs. */
export const POISONS = [
  'forbidden',
  'fails',
  'unanswered',
  'later',
  'reset',
] as const satisfies readonly JobManner[]

export interface JobPlan {
  /** The tag is the first word of the conversation. Jobs of one account with the same tag are identical. */
  readonly tag: string
  readonly manner: JobManner
  readonly format: 'text' | 'json' | 'schema'
  readonly model: string
  readonly size: number
  readonly answerSize?: number
  readonly hasCallback: boolean
  readonly cacheTtlMs: number
  /** The default is `normal`. */
  readonly priority?: Priority
  /** The deadline comes this many seconds after the job's creation. If absent, there is no deadline. */
  readonly completeWithinS?: number
}

export const UPSTREAM_FAULTS = [
  'slow',
  'refused',
  'reset',
  '500',
  '503',
  '429',
  '401',
  'hang',
  'few at once',
] as const
export type UpstreamFault = (typeof UPSTREAM_FAULTS)[number]

export const RECEIVER_FAULTS = ['500', '503', '429', 'stall', 'reset', 'reply lost', 'slow', '410'] as const
export type ReceiverFault = (typeof RECEIVER_FAULTS)[number]

/** `unavailable` rejects all calls, and `full` all writes. With `cut`, connections break before or after a statement ran. */
export const STORE_FAULTS = ['slow', 'unavailable', 'full', 'cut'] as const
export type StoreFault = (typeof STORE_FAULTS)[number]

interface OfJob {
  readonly job: number
  readonly node: number
}

interface OfAccount {
  readonly account: number
  readonly node: number
}

/** Numbers of objects are taken modulo the number of existing objects. */
export type Step =
  | (OfAccount & {
      readonly kind: 'create'
      readonly jobs: readonly JobPlan[]
      readonly waitMs: number | null
      readonly key: string | null
      /** The caller disconnects this many milliseconds after its request. Null means that it does not. */
      readonly leaveMs: number | null
    })
  | (OfJob & { readonly kind: 'read'; readonly isForeign: boolean })
  /** Cancels the job of one of the calls in progress. */
  | { readonly kind: 'cancel called'; readonly call: number }
  /** Reads one job, or several with the key of the first one's account. Some of the others may belong to other accounts. */
  | {
      readonly kind: 'wait'
      readonly jobs: readonly number[]
      readonly node: number
      readonly isForeign: boolean
      readonly waitMs: number
      readonly until: 'any' | 'all'
      readonly leaveMs: number | null
    }
  | (OfAccount & { readonly kind: 'list'; readonly limit: number; readonly status: Status | null })
  /** With `thenDelete`, the caller deletes the job right after it has cancelled it. */
  | (OfJob & { readonly kind: 'cancel own'; readonly isForeign: boolean; readonly thenDelete: boolean })
  | (OfJob & { readonly kind: 'delete own'; readonly isForeign: boolean; readonly dropCallback: boolean })
  | (OfJob & { readonly kind: 'cancel' | 'delete job' | 'replay' })
  | (OfAccount & { readonly kind: 'cancel all'; readonly running: boolean })
  | (OfAccount & { readonly kind: 'suspend' | 'resume' | 'rotate secret' | 'delete account' })
  | (OfAccount & {
      readonly kind: 'cap'
      readonly openJobs: number | null
      readonly monthlyJobs?: number | null
      readonly monthlyTokens?: number | null
      readonly storedBytes?: number | null
      readonly monthlyCost?: number | null
    })
  | (OfAccount & {
      readonly kind: 'submit batch'
      readonly lines: readonly JobPlan[]
      readonly windowMs: number
    })
  | { readonly kind: 'cancel batch'; readonly batch: number; readonly node: number }
  | { readonly kind: 'store'; readonly fault: StoreFault; readonly ms: number }
  | {
      readonly kind: 'upstream'
      readonly upstream: number
      readonly fault: UpstreamFault
      readonly ms: number
    }
  | {
      readonly kind: 'receiver'
      readonly account: number
      readonly fault: ReceiverFault
      readonly ms: number
    }
  /** Ends the node's process at once. Its next process starts after `ms` milliseconds. */
  | { readonly kind: 'kill'; readonly node: number; readonly ms: number }
  /** Stops the node as on SIGTERM, and starts it again, as in a rolling upgrade. */
  | { readonly kind: 'restart'; readonly node: number; readonly ms: number }
  /** With `process`, the whole process pauses. With `loop`, its event loop is busy while its other threads continue. */
  | { readonly kind: 'pause'; readonly node: number; readonly ms: number; readonly what: 'process' | 'loop' }
  | { readonly kind: 'clock'; readonly node: number; readonly ms: number }
  /** Moves the database's clock, by which leases expire. */
  | { readonly kind: 'store clock'; readonly ms: number }
  /** Stops the nodes and starts them again, one after the other, each after `ms` milliseconds. */
  | { readonly kind: 'upgrade'; readonly ms: number }

export type Action = { readonly atMs: number } & Step

export interface Plan {
  readonly seed: number
  /** If true, many nodes share the database, like Postgres. If false, one node uses it alone, like a SQLite file. */
  readonly shared: boolean
  readonly nodes: number
  readonly concurrency: number
  readonly upstreamConcurrency: number
  readonly maxAttempts: number
  readonly patienceMs: number
  readonly maxPendingResponses: number
  readonly drainMs: number
  readonly callbackSlots: number
  readonly memoryBytes: number
  readonly retentionS: number
  readonly actions: readonly Action[]
}

/** The history of a plan in `found/` showed a bug. */
export interface StoredPlan extends Plan {
  /** This real store also runs the plan. If absent, only the reference store does. */
  readonly store?: 'sqlite' | 'postgres'
  /**
   * A bug that is not fixed yet has this field: the first rule that the history breaks, and how the text of the violation begins.
   */
  readonly unfixed?: { readonly rule: string; readonly what: string }
}

const USUAL_CREATE = { key: null, leaveMs: null }
const USUAL_JOB: Omit<JobPlan, 'tag'> = {
  manner: 'answer',
  format: 'text',
  model: 'one-target',
  size: 10,
  hasCallback: false,
  cacheTtlMs: 300_000,
}

/** The JSON text may omit a field whose value is in `USUAL_CREATE` or `USUAL_JOB`. */
export function parsePlan(json: string): StoredPlan {
  const plan: StoredPlan = JSON.parse(json)
  const actions = plan.actions.map((action): Action => {
    if (action.kind !== 'create') return action
    return { ...USUAL_CREATE, ...action, jobs: action.jobs.map((job) => ({ ...USUAL_JOB, ...job })) }
  })
  return { ...plan, actions }
}

export const ACCOUNTS = [
  { name: 'acme', tier: 'user_free' },
  { name: 'beta', tier: 'user_pro' },
  { name: 'crowd', tier: 'user_max' },
] as const
/** @param which the number by which a step refers to an account; larger numbers start again at the first account */
export const accountOf = (which: number) => ACCOUNTS[which % ACCOUNTS.length]?.name ?? ''
export const LEASE_MS = 10_000
/** The first element is the pause before the first attempt. */
export const CALLBACK_PAUSES_S = [0, 5, 30, 60, 120, 240]

export const UPSTREAMS = ['alpha', 'beta'] as const
/** Each public model name has these upstreams, in the order in which they are tried. */
export const MODELS: Readonly<Record<string, readonly string[]>> = {
  'one-target': ['alpha'],
  'two-targets': ['alpha', 'beta'],
  'other-target': ['beta'],
}

export function describeAction({ atMs, kind, ...step }: Action): string {
  const fields = Object.entries(step).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  return `${(atMs / 1000).toFixed(3).padStart(9)} s  ${kind} ${fields.join(' ')}`
}
