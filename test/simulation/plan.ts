/**
 * Describes what a seed plans: the world, and the list of everything that callers, operators and faults do in it, each at its
 * time. A history is a plan that was run. Shrinking leaves actions out, so each is independent: it refers to its objects by
 * number, and does nothing if they do not exist.
 */
import type { Status } from '../../src/job/job.ts'
import type { Priority } from '../../src/job/priority.ts'

/** How a model server treats a job, apart from other faults. */
export type JobManner =
  | 'answer'
  /** Takes up to a minute. */
  | 'answer slowly'
  /** Wrong JSON, once or always. */
  | 'wrong once'
  | 'wrong'
  /** Wrong JSON once, and the upstream is overloaded at the repair. */
  | 'wrong, then overloaded'
  /** An error that costs tokens, once: gateways report such errors inside a 200. */
  | 'paid error once'
  /** Ends at the length limit of the model. */
  | 'cut off'
  | 'refuse'
  /** 400: the request is invalid. */
  | 'invalid'
  /** Resets the connection each time. */
  | 'reset'
  /** An answer that the database rejects. */
  | 'unstorable'
  /** The process that sent the call ends. */
  | 'kill'
  /** 403 each time, as a firewall in front of the server answers. */
  | 'forbidden'
  /** 500 each time. */
  | 'fails'
  /** No answer at all. */
  | 'unanswered'
  /** 503 with a Retry-After of an hour. */
  | 'later'
  /** Crashes the model server as long as its schema is sent. */
  | 'crash'
  /** Crashes the model server each time. */
  | 'crash always'

/** A server that works for others answers these jobs with failures. */
export const POISONS = [
  'forbidden',
  'fails',
  'unanswered',
  'later',
  'reset',
] as const satisfies readonly JobManner[]

export interface JobPlan {
  /** The first word of the conversation. Jobs of an account with the same tag are identical. */
  readonly tag: string
  readonly manner: JobManner
  readonly format: 'text' | 'json' | 'schema'
  readonly model: string
  /** Characters of the conversation. */
  readonly size: number
  /** Characters of the answer besides its first words. */
  readonly answerSize?: number
  readonly hasCallback: boolean
  readonly cacheTtlMs: number
  /** Normal if absent. */
  readonly priority?: Priority
  /** The time from the job's creation to its deadline; no deadline if absent. */
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

/** `unavailable`: rejects everything; `full`: rejects writes; `cut`: connections break, before or after a statement ran. */
export const STORE_FAULTS = ['slow', 'unavailable', 'full', 'cut'] as const
export type StoreFault = (typeof STORE_FAULTS)[number]

/** Numbers of objects are taken modulo their count. */
export type Step =
  | {
      readonly kind: 'create'
      readonly account: number
      readonly node: number
      readonly jobs: readonly JobPlan[]
      /** How long the caller waits for the answer; null for a batch. */
      readonly waitMs: number | null
      readonly key: string | null
      /** When the caller disconnects; null if it does not. */
      readonly leaveMs: number | null
    }
  | { readonly kind: 'read'; readonly job: number; readonly node: number; readonly isForeign: boolean }
  /** Cancels the job of one of the calls in progress. */
  | { readonly kind: 'cancel called'; readonly call: number }
  /** One job, or several read with the first one's account; some of the others may belong to other accounts. */
  | {
      readonly kind: 'wait'
      readonly jobs: readonly number[]
      readonly node: number
      readonly isForeign: boolean
      readonly waitMs: number
      readonly until: 'any' | 'all'
      readonly leaveMs: number | null
    }
  | {
      readonly kind: 'list'
      readonly account: number
      readonly node: number
      readonly limit: number
      readonly status: Status | null
    }
  | {
      readonly kind: 'cancel own'
      readonly job: number
      readonly node: number
      readonly isForeign: boolean
      /** Whether its caller deletes it at once. */
      readonly thenDelete: boolean
    }
  | {
      readonly kind: 'delete own'
      readonly job: number
      readonly node: number
      readonly isForeign: boolean
      readonly dropCallback: boolean
    }
  | { readonly kind: 'cancel' | 'delete job' | 'replay'; readonly job: number; readonly node: number }
  | {
      readonly kind: 'cancel all'
      readonly account: number
      readonly node: number
      readonly running: boolean
    }
  | {
      readonly kind: 'suspend' | 'resume' | 'rotate secret' | 'delete account'
      readonly account: number
      readonly node: number
    }
  | {
      readonly kind: 'cap'
      readonly account: number
      readonly node: number
      readonly openJobs: number | null
      readonly monthlyJobs?: number | null
      readonly monthlyTokens?: number | null
      readonly storedBytes?: number | null
      readonly monthlyCost?: number | null
    }
  | {
      readonly kind: 'submit batch'
      readonly account: number
      readonly node: number
      readonly lines: readonly JobPlan[]
      readonly windowMs: number
    }
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
  /** The process ends; another one starts after this time. */
  | { readonly kind: 'kill'; readonly node: number; readonly ms: number }
  /** Stops as on SIGTERM, and starts again, as in a rolling upgrade. */
  | { readonly kind: 'restart'; readonly node: number; readonly ms: number }
  /** `process`: the whole process is stopped; `loop`: its event loop is busy, and its threads continue. */
  | { readonly kind: 'pause'; readonly node: number; readonly ms: number; readonly what: 'process' | 'loop' }
  | { readonly kind: 'clock'; readonly node: number; readonly ms: number }
  /** Moves the clock of the database, by which leases expire. */
  | { readonly kind: 'store clock'; readonly ms: number }
  /** The nodes stop and start again one after the other, each after this time. */
  | { readonly kind: 'upgrade'; readonly ms: number }

export type Action = { readonly atMs: number } & Step

export interface AccountPlan {
  readonly name: string
  readonly tier: string
}

export interface Plan {
  readonly seed: number
  /** Whether the database is shared, like Postgres, or a file of one node, like SQLite. */
  readonly shared: boolean
  readonly nodes: number
  readonly accounts: readonly AccountPlan[]
  readonly concurrency: number
  readonly upstreamConcurrency: number
  readonly maxAttempts: number
  readonly leaseMs: number
  readonly patienceMs: number
  readonly maxPendingResponses: number
  readonly drainMs: number
  /** The pauses before the attempts of a callback. */
  readonly callbackPausesS: readonly number[]
  readonly callbackSlots: number
  /** Bytes of the byte budget. */
  readonly memoryBytes: number
  readonly retentionS: number
  /** The actions in chronological order. */
  readonly actions: readonly Action[]
}

/** A plan in `found/`: the history of a bug. */
export interface StoredPlan extends Plan {
  /** The real store that also runs it; without one, it runs on the reference store alone. */
  readonly store?: 'sqlite' | 'postgres'
  /** Marks a bug that nobody has fixed yet: the first rule that its history breaks, and how the violation begins. */
  readonly unfixed?: { readonly rule: string; readonly what: string }
}

export const UPSTREAMS = ['alpha', 'beta'] as const
/** The upstreams to try, by public name. */
export const MODELS: Readonly<Record<string, readonly string[]>> = {
  'one-target': ['alpha'],
  'two-targets': ['alpha', 'beta'],
  'other-target': ['beta'],
}

/** A line of a printed history. */
export function describeAction({ atMs, kind, ...step }: Action): string {
  const fields = Object.entries(step).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  return `${(atMs / 1000).toFixed(3).padStart(9)} s  ${kind} ${fields.join(' ')}`
}
