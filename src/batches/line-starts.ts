/**
 * Creates the jobs of a batch's lines, within the limits of the account. A line gets only one job, even if it is started
 * several times.
 */
import type { CreateElement } from '../job/create-body.ts'
import type { Job } from '../job/job.ts'
import { withBatch } from '../job/response-format.ts'
import type { Tiers } from '../job/tier.ts'
import type { AdmissionError, CountElement, JobCreator, JobOwner } from '../queue/job-creator.ts'
import { backgroundOwner } from '../queue/reruns.ts'
import type { BatchLine, StoredBatch } from '../store/batch-store.ts'
import { type Store, WriteRejected } from '../store/store.ts'

export interface LineStartsOptions {
  readonly store: Pick<Store, 'findOwner' | 'findEarlier'>
  readonly creator: Pick<JobCreator, 'admit' | 'accept'>
  readonly tiers: Tiers
  readonly countTokens: (account: string) => CountElement
}

export type Admitted =
  | { readonly kind: 'admitted'; readonly job: Job }
  | { readonly kind: 'refused'; readonly error: AdmissionError }
  /** The line is tried again later, for example because a limit is reached. */
  | { readonly kind: 'later'; readonly error: AdmissionError }

export type Started =
  | { readonly kind: 'started'; readonly jobId: string }
  | Exclude<Admitted, { kind: 'admitted' }>

export type LineOfBatch = Omit<BatchLine, 'jobId'>

/** Returns the idempotency key of a line. No caller can use it, because the keys of callers contain no spaces. */
export const keyOfLine = (batchId: string, line: number) => `batch ${batchId} ${line}`

const FINGERPRINT = 'batch'
/** How long the keys are stored after the batch's deadline, for batches that end late. */
const REMEMBER_MS = 86_400_000
/** Whether a line with this error can never start. A line with another error is tried again later. */
const NEVER_STARTS: Readonly<Record<AdmissionError['kind'], boolean>> = {
  invalid: true,
  'model not allowed': true,
  'too many tokens': true,
  'too many output tokens': true,
  'priority not allowed': true,
  suspended: false,
  'unknown to a node': false,
  'create rate': false,
  'monthly cap': false,
  quota: false,
}

export class LineStarts {
  readonly #options: LineStartsOptions

  constructor(options: LineStartsOptions) {
    this.#options = options
  }

  /** Returns null if the account was deleted. */
  async ownerOf(account: string): Promise<JobOwner | null> {
    const { store, tiers } = this.#options
    const found = await store.findOwner(account)
    return found && backgroundOwner(account, tiers.of(found.tier), found)
  }

  /** Applies the rules of admission to a line. Stores nothing. */
  async admit(element: CreateElement, owner: JobOwner): Promise<Admitted> {
    const { creator, countTokens } = this.#options
    const admission = await creator.admit([element], owner, countTokens(owner.account), true)
    if (!admission.ok) {
      const { error } = admission
      return { kind: NEVER_STARTS[error.kind] ? 'refused' : 'later', error }
    }
    const [job] = admission.jobs
    if (job === undefined) throw new Error('no job was admitted')
    return { kind: 'admitted', job }
  }

  /**
   * Creates the job of the line, which is durable when this resolves to `started`. If the line was already started, it keeps
   * its job.
   */
  async start(
    batch: StoredBatch,
    { line, customId }: LineOfBatch,
    element: CreateElement,
    owner: JobOwner,
  ): Promise<Started> {
    const recordJson = withBatch(element.recordJson, { id: batch.id, custom_id: customId })
    const admitted = await this.admit({ ...element, recordJson }, owner)
    if (admitted.kind !== 'admitted') return admitted
    const job: Job = { ...admitted.job, priority: 'low', deadlineMs: batch.deadlineMs }
    const idempotency = idempotencyOf(batch, line)
    try {
      const accepted = await this.#options.creator.accept({ jobs: [job], owner, idempotency }, null)
      if (accepted.kind === 'accepted') return { kind: 'started', jobId: job.id }
      if (accepted.kind === 'repeated') return { kind: 'started', jobId: accepted.jobIds[0] ?? job.id }
      if (accepted.kind === 'conflict') throw new Error('another request has the key of a line')
      return { kind: 'later', error: accepted }
    } catch (error) {
      if (!(error instanceof WriteRejected)) throw error
      const rule = 'cannot be stored by the database'
      return { kind: 'refused', error: { kind: 'invalid', element: null, field: 'messages', rule } }
    }
  }

  /** Returns the ID of the job that a line already has; null if it has none. */
  async jobOf(batch: StoredBatch, line: number, nowMs: number): Promise<string | null> {
    const earlier = await this.#options.store.findEarlier(batch.account, idempotencyOf(batch, line), nowMs)
    return earlier?.kind === 'repeated' ? (earlier.jobIds[0] ?? null) : null
  }
}

/**
 * Returns how many lines of a batch may be open: half of the jobs that the account may have open, so that it can create other
 * jobs.
 */
export function maxOpenLines({ quotas }: JobOwner): number {
  return Math.max(1, Math.floor((quotas?.openJobs?.limit ?? Number.POSITIVE_INFINITY) / 2))
}

function idempotencyOf({ id, deadlineMs }: StoredBatch, line: number) {
  return { key: keyOfLine(id, line), fingerprint: FINGERPRINT, untilMs: deadlineMs + REMEMBER_MS }
}
