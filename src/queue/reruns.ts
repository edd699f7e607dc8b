/**
 * Creates the jobs of reruns, which operators request through any process on the database. The limits of the jobs' account
 * apply as if a caller had created the jobs, except for the limit of jobs per minute. A rerun is refused if they forbid its job,
 * or if a node of an earlier version on the database would not know what the job needs.
 */

import type { Clock } from '../clock.ts'
import type { CreateElement } from '../job/create-body.ts'
import type { Callback } from '../job/job.ts'
import { PRIORITIES } from '../job/priority.ts'
import { splitMetadata, splitOptions, splitRecord } from '../job/response-format.ts'
import type { Tier, Tiers } from '../job/tier.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { AccountRecord } from '../store/account-store.ts'
import type { Expiry } from '../store/expiry.ts'
import type { JobToRerun, OpenRerun, RerunEnd, RerunStore } from '../store/rerun-store.ts'
import { capsOf } from './job-and-token-caps.ts'
import type { Acceptance, AdmissionError, CountElement, JobCreator, JobOwner } from './job-creator.ts'
import { quotasOf } from './quotas.ts'

/** Polls are rare, because operators can wait and each poll wakes an idle process. */
const POLL_MS = 2000
/**
 * After a poll that created jobs, the next one comes sooner. A command that reruns many jobs requests the next ones soon after
 * the previous ones exist.
 */
const NEXT_STEP_MS = 500
const STEP = 100

export interface RerunsOptions {
  readonly store: Pick<RerunStore, 'openReruns' | 'takeRerun' | 'endRerun' | 'jobToRerun'>
  readonly creator: Pick<JobCreator, 'admit' | 'accept' | 'idempotencyMs'>
  readonly tiers: Tiers
  readonly countTokens: (account: string) => CountElement
  readonly clock: Clock
  readonly expiry: () => Expiry
  /** Returns the message that a caller would get. */
  readonly describe: (error: AdmissionError) => string
  readonly onMade: (jobId: string, rerunId: string) => void
  readonly onError: (error: unknown) => void
}

export class Reruns {
  readonly #options: RerunsOptions
  readonly #poll: PollingLoop
  #isStopped = false
  #hasMade = false
  #making: Promise<void> = Promise.resolve()

  constructor(options: RerunsOptions) {
    const { clock, onError } = options
    this.#options = options
    this.#poll = new PollingLoop({
      clock,
      pauseMs: () => (this.#hasMade ? NEXT_STEP_MS : POLL_MS),
      task: () => this.makeAll(),
      onError,
    })
  }

  start(): void {
    this.#poll.start()
  }

  /** Resolves when no rerun is in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all([this.#poll.stop(), this.#making])
  }

  /**
   * Resolves when each rerun that was requested before the call has its job or a refusal, unless another node has taken it.
   * Resolves earlier after an error or a call of `stop`. Never rejects.
   */
  makeAll(): Promise<void> {
    this.#making = this.#making.then(() => this.#makeOpen())
    return this.#making
  }

  async #makeOpen(): Promise<void> {
    const { store, clock, onError } = this.#options
    this.#hasMade = false
    try {
      while (!this.#isStopped) {
        const open = await store.openReruns(clock.nowMs(), STEP)
        if (open.length === 0) return
        for (const rerun of open) {
          if (this.#isStopped) return
          if (!(await store.takeRerun(rerun.id, clock.nowMs()))) continue
          this.#hasMade = true
          await this.#make(rerun)
        }
      }
    } catch (error) {
      // The request counts as taken for RERUN_TAKEN_MS. After that time, a node retries it.
      onError(error)
    }
  }

  async #make(rerun: OpenRerun): Promise<void> {
    const { store, clock, onMade } = this.#options
    const end = await this.#endOf(rerun)
    await store.endRerun(rerun.id, end, clock.nowMs())
    if (end.rerunId !== null) onMade(rerun.jobId, end.rerunId)
  }

  async #endOf({ id, jobId, withCallback }: OpenRerun): Promise<RerunEnd> {
    const { store, creator, tiers, countTokens, clock, expiry } = this.#options
    const job = await store.jobToRerun(jobId, expiry())
    if (job === null) return refused('The job has expired or was deleted.')
    if (!job.hasEnded) return refused('The job has not finished.')
    const owner = backgroundOwner(job.owner.name, tiers.of(job.owner.tier), job.owner)
    const element = elementOf(job, withCallback)
    const admission = await creator.admit([element], owner, countTokens(owner.account), true)
    if (!admission.ok) return this.#refusedFor(admission.error)
    // If a node crashes before it has recorded the new job, the node that retries finds the job by this key. Callers cannot use
    // this key, because theirs contain no spaces.
    const idempotency = {
      key: `rerun ${id}`,
      fingerprint: '',
      untilMs: clock.nowMs() + creator.idempotencyMs,
    }
    const accepted = await creator.accept({ jobs: admission.jobs, owner, idempotency }, null)
    return this.#accepted(accepted, admission.jobs[0]?.id)
  }

  #accepted(accepted: Acceptance, id: string | undefined): RerunEnd {
    if (accepted.kind === 'conflict') throw new Error('the key of a rerun is in use')
    if (accepted.kind !== 'accepted' && accepted.kind !== 'repeated') return this.#refusedFor(accepted)
    const rerunId = accepted.kind === 'accepted' ? id : accepted.jobIds[0]
    if (rerunId === undefined) throw new Error('a rerun has no job')
    return { rerunId, refusal: null }
  }

  #refusedFor(error: AdmissionError): RerunEnd {
    return refused(this.#options.describe(error))
  }
}

function refused(refusal: string): RerunEnd {
  return { rerunId: null, refusal }
}

/** Each message begins with this. The content of a message cannot contain it, because JSON escapes the quote in strings. */
const MESSAGE_START = '{"'

/**
 * Returns the request of the job. The new job does not use the response cache, which may contain the answer that the rerun
 * should replace.
 */
function elementOf(job: JobToRerun, withCallback: boolean): CreateElement {
  const { model, messagesJson, responseFormatJson: storedJson, createdAtMs, inputTokens, deadlineMs } = job
  const { optionsJson, formatJson } = splitOptions(storedJson)
  const { metadataJson } = splitMetadata(storedJson)
  const { recordJson } = splitRecord(storedJson)
  const callbackJson = withCallback ? job.callbackJson : null
  return {
    model,
    messagesJson,
    messages: messagesJson.split(MESSAGE_START).length - 1,
    // The token count of the original job is exact, or an upper bound that did not exceed the limit of its tier.
    tokensAtMost: inputTokens,
    responseFormatJson: formatJson,
    options: optionsJson === null ? null : JSON.parse(optionsJson),
    metadata: metadataJson === null ? null : JSON.parse(metadataJson),
    cacheTtlS: 0,
    timeoutS: undefined,
    ...(recordJson !== null && { recordJson }),
    priority: PRIORITIES.find((priority) => priority === job.priority),
    completeWithinS: deadlineMs === null ? undefined : (deadlineMs - createdAtMs) / 1000,
    callback: callbackJson === null ? null : (JSON.parse(callbackJson) as Callback),
    ignored: null,
    problem: null,
  }
}

/**
 * Returns the account with its current limits, without that of jobs per minute, so that callers' requests can use all of that
 * limit.
 */
export function backgroundOwner(
  account: string,
  usualTier: Tier,
  { suspendedAtMs, caps }: Pick<AccountRecord, 'suspendedAtMs' | 'caps'>,
): JobOwner {
  const tier = { ...usualTier, createsPerMinute: null }
  return {
    account,
    tier,
    suspended: suspendedAtMs !== null,
    caps: capsOf(account, tier, caps),
    quotas: quotasOf(account, tier, caps),
  }
}
