/**
 * Creates jobs, independently of HTTP. `admit` turns valid creation objects into jobs, or returns the error of the first
 * violated rule: first the fields of every element (400), then the limits of the tier (403) and what a node of an earlier
 * version on the database does not know (503). `accept` makes the jobs durable, within the quotas and caps of the account.
 */
import { type Clock, wholeMs } from '../clock.ts'
import { sumOfCosts } from '../job/amount.ts'
import type { CreateElement, Problem } from '../job/create-body.ts'
import { CACHE_TTL_S } from '../job/field-rules.ts'
import { type Callback, callbackText, type Job } from '../job/job.ts'
import { hasEnded, type JobRecord } from '../job/job-record.ts'
import { monthEndsMs } from '../job/month.ts'
import type { JobOptions } from '../job/options.ts'
import type { Priority } from '../job/priority.ts'
import { withMetadata, withOptions, withRecord, withTraceparent } from '../job/response-format.ts'
import type { Tier } from '../job/tier.ts'
import { checkCallbackHeaders } from '../net/callback-headers.ts'
import { type AddressRules, checkCallbackUrl } from '../net/ssrf-guard.ts'
import { MinuteCounter } from '../sharing/minute-counter.ts'
import type { Feature } from '../store/node-store.ts'
import type { Accepted, Earlier, Idempotency, OverCostCap, Store } from '../store/store.ts'
import type { TokenCount } from '../tokens/token-counter.ts'
import type { CostCapQueue } from './cost-cap-queue.ts'
import type { CurrentPrices } from './current-prices.ts'
import type { EnqueueOptions, Enqueuer } from './enqueue.ts'
import type { CapReached, Caps, JobAndTokenCaps } from './job-and-token-caps.ts'
import type { PendingResponse, PendingResponses, WaitEnd } from './pending-responses.ts'
import { bytesToStore, type QuotaLimits, type QuotaReached, type Quotas } from './quotas.ts'

export type AdmissionError =
  | { readonly kind: 'suspended'; readonly account: string }
  /** `element` is the index in a batch; null for a single job. */
  | {
      readonly kind: 'invalid'
      readonly element: number | null
      readonly field: string
      readonly rule: string
    }
  | { readonly kind: 'model not allowed'; readonly tier: string; readonly model: string }
  | {
      readonly kind: 'too many tokens'
      readonly tier: string
      readonly limit: number
      readonly count: TokenCount
    }
  | { readonly kind: 'too many output tokens'; readonly tier: string; readonly limit: number }
  | { readonly kind: 'priority not allowed'; readonly tier: Tier; readonly priority: Priority }
  | { readonly kind: 'unknown to a node'; readonly field: Feature }
  | CapReached
  | CreateRateReached
  | QuotaReached

export interface CreateRateReached {
  readonly kind: 'create rate'
  readonly limit: number
  readonly leftMs: number
}

export type Admission =
  | { readonly ok: true; readonly jobs: readonly Job[] }
  | { readonly ok: false; readonly error: AdmissionError }

export interface AdmissionRules {
  /**
   * Maps each public model name to a number of input tokens, above which the tokens are counted exactly: the count decides
   * which model `gpt-auto` calls. The number is infinite for other models.
   */
  readonly models: ReadonlyMap<string, number>
  /** `prices` is null if no model has a price. */
  readonly prices: CurrentPrices | null
  readonly addresses: AddressRules
  readonly makeId: () => string
}

export interface JobOwner {
  readonly account: string
  readonly tier: Tier
  /** A suspended account cannot create jobs, but can read its jobs. */
  readonly suspended: boolean
  readonly caps: Caps | null
  readonly quotas: QuotaLimits | null
}

export interface AdmittedJobs {
  readonly jobs: readonly Job[]
  readonly owner: JobOwner
  readonly idempotency: Idempotency | null
}

export type Acceptance =
  /** `pending` is null if the caller does not wait, or if no slot for a pending response is free. */
  | { readonly kind: 'accepted'; readonly pending: PendingResponse | null }
  | Earlier
  | CapReached
  | CreateRateReached
  | QuotaReached

export interface JobCreatorOptions extends AdmissionRules {
  readonly enqueuer: Enqueuer
  readonly store: Pick<Store, 'findEarlier' | 'isKnownToAll'>
  readonly pendingResponses: PendingResponses
  readonly jobAndTokenCaps: JobAndTokenCaps
  readonly quotas: Quotas
  readonly budget: Pick<CostCapQueue, 'has'>
  readonly onQuotaReached: (reached: QuotaReached) => void
  readonly clock: Pick<Clock, 'nowMs' | 'steadyMs'>
  readonly idempotencyMs: number
  /** Returns the trace to which created jobs belong; absent without telemetry. */
  readonly traceparent?: () => string | null
}

const DEFAULT_CACHE_TTL_MS = wholeMs(CACHE_TTL_S.default)

/** The count may stop just above the limit. */
export type CountElement = (element: CreateElement, limit: number) => Promise<TokenCount>

type Counts = ReadonlyMap<CreateElement, TokenCount>

const NO_COUNTS: Counts = new Map()

export class JobCreator {
  readonly idempotencyMs: number
  readonly #options: JobCreatorOptions
  readonly #creates: MinuteCounter

  constructor(options: JobCreatorOptions) {
    this.#creates = new MinuteCounter(options.clock)
    this.idempotencyMs = options.idempotencyMs
    this.#options = options
  }

  /**
   * Turns elements into jobs and stores nothing. Returns a promise only if tokens must be counted.
   * @param single whether the request creates one job outside of a batch, whose errors name fields without an index
   */
  admit(
    elements: readonly CreateElement[],
    owner: JobOwner,
    countTokens: CountElement,
    single: boolean,
  ): Admission | Promise<Admission> {
    if (owner.suspended) return refused({ kind: 'suspended', account: owner.account })
    const rules = this.#options
    const callbacks: (string | null)[] = []
    // A live node of an earlier version could not read a trace. The jobs matter more, so they are stored without one.
    const { traceparent: traceNow, store } = rules
    const traceparent = traceNow !== undefined && store.isKnownToAll('traceparent') ? traceNow() : null
    let mustCount = false
    for (const element of elements) {
      const checked = checkFields(element, rules)
      if (checked !== null && 'rule' in checked) {
        const index = single ? null : callbacks.length
        return refused({ kind: 'invalid', element: index, ...checked })
      }
      callbacks.push(checked && callbackText(traceparent === null ? checked : { ...checked, traceparent }))
      mustCount ||= element.tokensAtMost > boundOf(element, owner.tier, rules)
    }
    if (!mustCount) return this.#admitCounted(elements, callbacks, owner, NO_COUNTS, traceparent)
    return countAll(elements, owner.tier, rules, countTokens).then((counts) =>
      this.#admitCounted(elements, callbacks, owner, counts, traceparent),
    )
  }

  /**
   * When this resolves to `accepted`, the jobs are durable. Stores no jobs if an earlier request had the same Idempotency-Key.
   * @param waitMs how long the caller of the single job waits for its result from now on; null if the caller does not wait
   */
  async accept({ jobs, owner, idempotency }: AdmittedJobs, waitMs: number | null): Promise<Acceptance> {
    const { pendingResponses, enqueuer } = this.#options
    const { quotas, caps, account, tier } = owner
    if (tier.createsPerMinute !== null) {
      const reached = await this.#createRateReached(account, tier.createsPerMinute, jobs.length, idempotency)
      if (reached !== null) return reached
    }
    const [job] = jobs
    const pending = waitMs === null || !job ? null : pendingResponses.add(job.id, account, waitMs)
    // While prices have no effect, nothing is reserved and the cost cap does not apply.
    const costCap = caps?.cost && this.#options.prices?.() ? { costCap: caps.cost.limit } : {}
    const options = { idempotency, awaited: pending !== null, ...costCap }
    let isAccepted = false
    try {
      const accepted = quotas
        ? await this.#acceptWithinQuotas(quotas, owner, jobs, options)
        : caps
          ? await this.#acceptWithinCaps(caps, owner, jobs, options)
          : await enqueuer.enqueue(jobs, options)
      if (accepted.kind === 'over cost cap') return this.#costCapReached(owner, accepted, jobs)
      if (accepted.kind !== 'accepted') return accepted
      isAccepted = true
      return { kind: 'accepted', pending }
    } finally {
      if (!isAccepted) pending?.leave()
    }
  }

  /**
   * Waits for the job of an earlier request that the caller repeats. If the job has finished, returns its result at once.
   * @param read reads the job; null if the job no longer exists
   */
  async awaitEarlier(
    jobId: string,
    account: string,
    waitMs: number,
    read: () => Promise<JobRecord | null>,
  ): Promise<PendingResponse | WaitEnd> {
    const pending = this.#options.pendingResponses.add(jobId, account, waitMs, true)
    let isWaiting = false
    try {
      const record = await read()
      if (record === null) return { kind: 'vanished' }
      if (hasEnded(record)) return { kind: 'settled', record, cacheHit: false }
      isWaiting = true
      return pending ?? { kind: 'no slot' }
    } finally {
      if (!isWaiting) pending?.leave()
    }
  }

  async #acceptWithinQuotas(
    limits: QuotaLimits,
    owner: JobOwner,
    jobs: readonly Job[],
    options: EnqueueOptions,
  ): Promise<Accepted | QuotaReached | CapReached> {
    const { quotas, onQuotaReached, enqueuer } = this.#options
    const { account, caps } = owner
    const bytes = limits.storedBytes === null ? 0 : bytesToStore(jobs)
    const reserved = quotas.reserve(account, limits, jobs.length, bytes)
    const reached = reserved instanceof Promise ? await reserved : reserved
    if (reached !== null) {
      const earlier = await this.#findEarlier(account, options)
      if (earlier === null) onQuotaReached(reached)
      return earlier ?? reached
    }
    let stored = false
    try {
      const accepted = caps
        ? await this.#acceptWithinCaps(caps, owner, jobs, options)
        : await enqueuer.enqueue(jobs, options)
      stored = accepted.kind === 'accepted'
      return accepted
    } finally {
      quotas.end(account, jobs.length, bytes, stored)
    }
  }

  async #acceptWithinCaps(
    caps: Caps,
    owner: JobOwner,
    jobs: readonly Job[],
    options: EnqueueOptions,
  ): Promise<Accepted | CapReached> {
    const { account } = owner
    if (caps.jobs === null && caps.tokens === null) return this.#enqueueOrWait(owner, jobs, options)
    const reserved = await this.#options.jobAndTokenCaps.reserve(account, caps, jobs.length)
    if (reserved.kind === 'monthly cap') return (await this.#findEarlier(account, options)) ?? reserved
    let stored = false
    try {
      const accepted = await this.#enqueueOrWait(owner, jobs, options)
      stored = accepted.kind === 'accepted'
      return accepted
    } finally {
      reserved.end(stored)
    }
  }

  /**
   * If the tier allows it, jobs that do not fit under the cost cap wait for the budget, and so do later jobs of the account. A
   * job that exceeds the whole cap is rejected, because it would wait forever.
   */
  async #enqueueOrWait(
    { account, tier }: JobOwner,
    jobs: readonly Job[],
    options: EnqueueOptions,
  ): Promise<Accepted> {
    const { enqueuer, budget } = this.#options
    const { costCap, ...uncapped } = options
    const mayWait =
      costCap !== undefined &&
      tier.overCap === 'wait' &&
      jobs.every(({ reserved = 0 }) => reserved <= costCap)
    if (!mayWait || !budget.has(account)) {
      const accepted = await enqueuer.enqueue(jobs, options)
      if (!mayWait || accepted.kind !== 'over cost cap') return accepted
    }
    return enqueuer.enqueue(jobs, { ...uncapped, overBudget: true })
  }

  #costCapReached({ caps }: JobOwner, { used }: OverCostCap, jobs: readonly Job[]): CapReached {
    const cap = caps?.cost
    if (!cap) throw new Error('the store kept a cap that nobody set')
    const resetsAtMs = monthEndsMs(this.#options.clock.nowMs())
    const added = jobs.reduce((sum, { reserved = 0 }) => sumOfCosts(sum, reserved), 0)
    return { kind: 'monthly cap', unit: 'cost', cap, used, added, resetsAtMs }
  }

  /**
   * A batch with more jobs than the limit counts as exactly the limit, so the account can create one such batch each minute.
   */
  async #createRateReached(
    account: string,
    limit: number,
    jobs: number,
    idempotency: Idempotency | null,
  ): Promise<CreateRateReached | Earlier | null> {
    const { count, leftMs } = this.#creates.add(account, Math.min(jobs, limit), limit)
    if (count <= limit) return null
    const earlier = await this.#findEarlier(account, { idempotency, awaited: false })
    return earlier ?? { kind: 'create rate', limit, leftMs }
  }

  /**
   * Call this before a limit rejects a request. A request that repeats an earlier one creates nothing, so limits do not apply
   * to it.
   */
  async #findEarlier(account: string, { idempotency }: EnqueueOptions): Promise<Earlier | null> {
    const { store, clock } = this.#options
    return idempotency && store.findEarlier(account, idempotency, clock.nowMs())
  }

  #admitCounted(
    elements: readonly CreateElement[],
    callbacks: readonly (string | null)[],
    { account, tier }: JobOwner,
    counts: Counts,
    traceparent: string | null,
  ): Admission {
    const { makeId, clock, store } = this.#options
    const { name, models, maxInputTokens: limit, maxOutputTokens } = tier
    const prices = this.#options.prices?.() ?? null
    const jobs: Job[] = []
    for (const element of elements) {
      const { model, messagesJson, responseFormatJson: formatJson, recordJson } = element
      const { metadata, cacheTtlS, priority, completeWithinS } = element
      if (!models.has(model)) return refused({ kind: 'model not allowed', tier: name, model })
      const count = counts.get(element)
      if (count !== undefined && count.tokens > limit)
        return refused({ kind: 'too many tokens', tier: name, limit, count })
      const options =
        maxOutputTokens === null ? element.options : optionsWithin(maxOutputTokens, element.options)
      if (options === 'too many tokens')
        return refused({ kind: 'too many output tokens', tier: name, limit: maxOutputTokens ?? 0 })
      if (options !== null && !store.isKnownToAll('options')) return unknownField('options')
      if (cacheTtlS === 0 && !store.isKnownToAll('uncached')) return unknownField('uncached')
      if (recordJson !== undefined && !store.isKnownToAll('responses')) return unknownField('responses')
      if (element.callback?.event && !store.isKnownToAll('callback.event'))
        return unknownField('callback.event')
      if (element.callback?.include && !store.isKnownToAll('callback.include'))
        return unknownField('callback.include')
      if (metadata !== null && !store.isKnownToAll('metadata')) return unknownField('metadata')
      const withoutRecord = options === null ? formatJson : withOptions(formatJson, options)
      const withoutTrace = recordJson === undefined ? withoutRecord : withRecord(withoutRecord, recordJson)
      const storedJson = traceparent === null ? withoutTrace : withTraceparent(withoutTrace, traceparent)
      if (priority !== undefined && !tier.priorities.has(priority))
        return refused({ kind: 'priority not allowed', tier, priority })
      if (priority !== undefined && !store.isKnownToAll('priority')) return unknownField('priority')
      if (completeWithinS !== undefined && !store.isKnownToAll('complete_within'))
        return unknownField('complete_within')
      const createdAtMs = clock.nowMs()
      const responseFormatJson = metadata === null ? storedJson : withMetadata(storedJson, metadata)
      const inputTokens = count?.tokens ?? element.tokensAtMost
      const reserved = prices?.estimateOf({ model, inputTokens, responseFormatJson }, models) ?? null
      jobs.push({
        id: makeId(),
        account,
        tier: name,
        model,
        messagesJson,
        responseFormatJson,
        cacheTtlMs: cacheTtlS === undefined ? DEFAULT_CACHE_TTL_MS : wholeMs(cacheTtlS),
        callbackJson: callbacks[jobs.length] ?? null,
        createdAtMs,
        inputTokens,
        ...(priority !== undefined && priority !== 'normal' && { priority }),
        ...(completeWithinS !== undefined && { deadlineMs: createdAtMs + wholeMs(completeWithinS) }),
        ...(reserved !== null && { reserved }),
      })
    }
    return { ok: true, jobs }
  }
}

function refused(error: AdmissionError): Admission {
  return { ok: false, error }
}

function unknownField(field: Feature): Admission {
  return refused({ kind: 'unknown to a node', field })
}

function optionsWithin(limit: number, options: JobOptions | null): JobOptions | 'too many tokens' {
  const { max_tokens = limit } = options ?? {}
  return max_tokens > limit ? 'too many tokens' : { ...options, max_tokens }
}

/** If the upper bound of an element's input tokens exceeds the returned number, its tokens must be counted exactly. */
function boundOf({ model }: CreateElement, { maxInputTokens }: Tier, { models }: AdmissionRules): number {
  return Math.min(maxInputTokens, models.get(model) ?? maxInputTokens)
}

async function countAll(
  elements: readonly CreateElement[],
  tier: Tier,
  rules: AdmissionRules,
  countTokens: CountElement,
): Promise<Counts> {
  const counts = new Map<CreateElement, TokenCount>()
  for (const element of elements) {
    if (!tier.models.has(element.model)) break
    if (element.tokensAtMost <= boundOf(element, tier, rules)) continue
    const count = await countTokens(element, tier.maxInputTokens)
    counts.set(element, count)
    if (count.tokens > tier.maxInputTokens) break
  }
  return counts
}

/** Returns the normalized callback (null if there is none), or the first rule that a field violates. */
function checkFields(
  { model, problem, callback }: CreateElement,
  rules: AdmissionRules,
): Problem | Callback | null {
  if (!rules.models.has(model)) {
    return { field: 'model', rule: `must be one of ${[...rules.models.keys()].join(', ')}` }
  }
  if (problem) return problem
  // The operator has set the URL of an event, so a caller could not correct it. The URL is checked when the event is sent.
  if (!callback || callback.event) return callback
  const { headers } = callback
  const address = checkCallbackUrl(callback.url, rules.addresses)
  if (!address.ok) return { field: 'callback.callback_url', rule: address.rule }
  const wrong = checkCallbackHeaders(headers)
  if (wrong) return { field: `callback.callback_headers.${wrong.header}`, rule: wrong.rule }
  return { ...callback, url: address.url }
}
