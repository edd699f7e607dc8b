/** Makes one attempt to deliver a callback: waits for memory for the body, loads it, sends it, and records the result. */
import type { Clock } from '../clock.ts'
import type { CallbackEvent } from '../job/job.ts'
import { endingOf, jobRecordJson, type MetadataById, NO_METADATA } from '../job/job-record.ts'
import { Stop } from '../job/stop.ts'
import type { Poster, PostRequest, PostResult } from '../net/post.ts'
import { secretsInForce, sign } from '../net/signing-secrets.ts'
import { retryWrite } from '../queue/retry-write.ts'
import { type ByteShare, callbackBytes } from '../sharing/byte-budget.ts'
import type { Secrets } from '../store/account-store.ts'
import type { CallbackAttempt, CallbackBody, CallbackNext, DueCallback } from '../store/callback-store.ts'
import type { Store } from '../store/store.ts'
import type { Delivery } from './deliveries.ts'
import { type Health, healthOf } from './receiver-limit.ts'
import { nextAttempt } from './retry-schedule.ts'

/**
 * A delivery may wait this long for memory while it occupies a slot. The wait must be shorter than `LEASE_SLACK_MS`
 * (dispatcher.ts), so that the lease of the delivery also covers the attempt.
 */
const MAX_BYTES_WAIT_MS = 15_000
/** Bodies up to this size are not counted in the memory budget, because the number of slots already limits their memory. */
const SMALL_BODY_BYTES = 16 * 1024
const NO_ACCOUNT = 'not sent: the account of the job no longer exists, so there is no secret to sign with'
const OVERDUE = 'not retried: the receiver is failing, and too many callbacks are waiting for it'

export interface CallbackSenderOptions {
  readonly store: Pick<Store, 'loadCallback' | 'recordCallback' | 'metadataOf'>
  readonly poster: Poster
  readonly clock: Clock
  /** Returns a number from 0 up to but not including 1. */
  readonly random: () => number
  /** Each attempt is preceded by its pause, so a callback has as many attempts as pauses. */
  readonly pausesS: readonly number[]
  /** Each account may use a limited part of this memory, so that an account with slow receivers leaves memory for others. */
  readonly bytes: ByteShare
  /** The sender calls this after the store has recorded an attempt or a permanent failure. */
  readonly onAttempt: (callback: DueCallback, attempt: CallbackAttempt, next: CallbackNext['kind']) => void
  /**
   * The sender calls this with each error of a store operation that may be temporary, and then retries the operation unless it
   * is stopping.
   */
  readonly onError: (error: unknown) => void
}

export interface Sent {
  readonly kind: 'sent'
  readonly result: PostResult
  readonly atMs: number
  readonly health: Health
}

export type SendResult =
  | Sent
  /** No attempt was made, so the delivery must be returned to the store. */
  | { readonly kind: 'not sent' }
  /** No attempt was made and none is needed: the job or its account was deleted, or another node has taken the callback. */
  | { readonly kind: 'gone' }

interface LoadedBody extends CallbackBody {
  readonly metadata: MetadataById
}

const NOT_SENT: SendResult = { kind: 'not sent' }
const GONE: SendResult = { kind: 'gone' }

export class CallbackSender {
  readonly #options: CallbackSenderOptions
  readonly #waits = new Set<Stop>()
  #state: 'running' | 'stopping' | 'cut off' = 'running'

  constructor(options: CallbackSenderOptions) {
    this.#options = options
  }

  send(delivery: Delivery): Promise<SendResult> {
    if (this.#state !== 'running') return Promise.resolve(NOT_SENT)
    const isSmall = delivery.callback.bodyBytes <= SMALL_BODY_BYTES
    return isSmall ? this.#sendBody(delivery) : this.#sendWithin(delivery)
  }

  record(delivery: Delivery, { result, atMs }: Sent): Promise<void> {
    const { clock, random, pausesS } = this.#options
    const { attempt, tries } = delivery.callback
    const nowMs = clock.nowMs()
    const next: CallbackNext = this.#isCutOff(result)
      ? { kind: 'due', atMs: nowMs, counts: false }
      : nextAttempt(result, tries, pausesS, random(), nowMs)
    const answered = result.kind === 'answered'
    return this.#write(delivery, next, {
      attempt,
      atMs,
      ms: result.ms,
      status: answered ? result.status : null,
      error: answered ? null : result.message,
      answer: answered ? result.bodyStart : null,
    })
  }

  /** Records that the callback has failed permanently, without another attempt. */
  recordOverdue(delivery: Delivery): Promise<void> {
    return this.#recordFailed(delivery, OVERDUE)
  }

  /** Prevents further attempts. Attempts in progress may finish. */
  stop(): void {
    this.#state = 'stopping'
    for (const wait of this.#waits) wait.now('release')
  }

  /** Aborts the attempts in progress. Aborted attempts do not count, and their callbacks are due at once. */
  cutOff(): void {
    this.#state = 'cut off'
    void this.#options.poster.close()
  }

  /** Resolves with false if no memory became free in time, or if the sender was stopped. */
  async #reserve(account: string, bytes: number): Promise<boolean> {
    const stop = new Stop()
    const cancel = this.#options.clock.after(MAX_BYTES_WAIT_MS, () => stop.now('timeout'))
    this.#waits.add(stop)
    const reserved = await this.#options.bytes.reserve(account, bytes, stop)
    this.#waits.delete(stop)
    cancel()
    return reserved
  }

  async #sendWithin(delivery: Delivery): Promise<SendResult> {
    const { account, bodyBytes } = delivery.callback
    const bytes = callbackBytes(bodyBytes)
    if (!(await this.#reserve(account, bytes))) return NOT_SENT
    try {
      return await this.#sendBody(delivery)
    } finally {
      this.#options.bytes.release(account, bytes)
    }
  }

  async #sendBody(delivery: Delivery): Promise<SendResult> {
    const { poster, clock } = this.#options
    const { attempt } = delivery
    const body = await this.#load(delivery)
    if (body === 'given up') return NOT_SENT
    // If this node has taken the callback again since, because the lease had expired, the callback must still be sent.
    if (!body) return delivery.attempt === attempt ? GONE : NOT_SENT
    const { secrets } = body
    if (secrets === null) {
      await this.#recordFailed(delivery, NO_ACCOUNT)
      return GONE
    }
    const atMs = clock.nowMs()
    const result = await poster.post(callbackRequest({ ...body, secrets }, atMs))
    return { kind: 'sent', result, atMs, health: this.#isCutOff(result) ? 'unknown' : healthOf(result) }
  }

  #load({ callback, attempt }: Delivery): Promise<LoadedBody | null | 'given up'> {
    const { store, clock, onError } = this.#options
    const { jobId, bodyBytes } = callback
    const load = async () => {
      const body = await store.loadCallback({ jobId, attempt, bodyBytes })
      // Metadata is read separately, so that callbacks without metadata need only one read.
      const metadata = body?.callback.include?.includes('metadata')
        ? await store.metadataOf([jobId])
        : NO_METADATA
      return body && { ...body, metadata }
    }
    return retryWrite(load, clock, onError, () => this.#state === 'running')
  }

  #recordFailed(delivery: Delivery, error: string): Promise<void> {
    const { attempt } = delivery.callback
    const atMs = this.#options.clock.nowMs()
    const made = { attempt, atMs, ms: 0, status: null, error, answer: null }
    return this.#write(delivery, { kind: 'failed' }, made)
  }

  async #write(delivery: Delivery, next: CallbackNext, made: CallbackAttempt): Promise<void> {
    const { store, clock, onAttempt, onError } = this.#options
    const { jobId } = delivery.callback
    // `delivery.attempt` is read at each try, because this node may take the callback again between two tries.
    const write = () => {
      const attempt = { ...made, attempt: delivery.attempt }
      return store.recordCallback({ jobId, attempt, next, nowMs: clock.nowMs() })
    }
    const recorded = await retryWrite(write, clock, onError, () => this.#state !== 'cut off')
    if (recorded === true) onAttempt(delivery.callback, made, next.kind)
  }

  /** Returns whether this node may have aborted the attempt. The result then shows nothing about the receiver. */
  #isCutOff(result: PostResult): boolean {
    return result.kind === 'failed' && this.#state === 'cut off'
  }
}

export interface SignableBody extends CallbackBody {
  readonly secrets: Secrets
  /** Empty or absent unless the caller asked for the job's metadata in the callback. */
  readonly metadata?: MetadataById
}

/** Builds the signed POST (SPEC §6). The payload is inserted as stored text, because parsing could change numbers. */
export function callbackRequest(signable: SignableBody, nowMs: number): PostRequest {
  const { callback, view, secrets, metadata } = signable
  const body = callback.event
    ? eventJson(callback.event, signable)
    : `${jobRecordJson(view, callback.include, metadata).slice(0, -1)},"callback_payload":${callback.payloadJson}}`
  const timestampS = Math.floor(nowMs / 1000)
  return {
    url: callback.url,
    body,
    headers: {
      // The caller's headers come later, because they may replace `traceparent`. While the server traces, the attempt's span
      // becomes a child of it, and the receiver gets the span's own (`tracedPoster`).
      ...(callback.traceparent !== undefined && { traceparent: callback.traceparent }),
      ...callback.headers,
      'content-type': 'application/json',
      'webhook-id': view.id,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': sign(secretsInForce(secrets, nowMs), view.id, timestampS, body),
    },
  }
}

/** The body is the same in every attempt, so that receivers can recognize an event that arrives twice. */
function eventJson({ of, idPrefix, ending }: CallbackEvent, { view, endedAtMs }: CallbackBody): string {
  return JSON.stringify({
    id: `evt_${view.id}`,
    object: 'event',
    created_at: Math.floor(endedAtMs / 1000),
    type: `${of}.${ending ?? endingOf(view)}`,
    data: { id: `${idPrefix}${view.id}` },
  })
}
