/**
 * Answers the calls of request threads on the main thread, by the limits that all requests share: what a call describes is counted, stored
 * and executed as if the HTTP server of the main thread had received the request.
 */
import type { Clock } from '../clock.ts'
import type { Authentication, Caller } from '../http/authentication.ts'
import type { JobCreator } from '../http/create-jobs.ts'
import { LARGE_ANSWER } from '../http/large-answers.ts'
import type { ReadCounter } from '../http/read-rate-limit.ts'
import { MAX_KEYS } from '../http/received-requests.ts'
import type { Job } from '../job/job.ts'
import type { PendingResponse, PendingResponses, WaitEnd } from '../queue/pending-responses.ts'
import { type ByteBudget, SMALL_BYTES } from '../sharing/byte-budget.ts'
import { answerBytes, requestBytes, waitingRequestBytes } from '../sharing/job-bytes.ts'
import { type Store, StoreUnavailable } from '../store/store.ts'
import { TransientMap } from '../transient-map.ts'
import type { JobCells, ToMain, ToThread } from './messages.ts'
import type { TurnPort } from './turn-port.ts'

export interface ThreadCallsOptions {
  readonly authentication: Authentication
  readonly creator: Pick<JobCreator, 'accept'>
  readonly readCounter: ReadCounter
  readonly pendingResponses: Pick<PendingResponses, 'add'>
  readonly store: Pick<Store, 'read'>
  readonly bytes: Pick<ByteBudget, 'requests' | 'answers'>
  readonly clock: Pick<Clock, 'nowMs'>
  readonly retentionMs: number
  /** A create was rejected because the database could not store its jobs. */
  readonly onUnavailable: (error: StoreUnavailable) => void
}

export type Call = Extract<
  ToMain,
  readonly [kind: 'authenticate' | 'create' | 'read' | 'leave' | 'sent', ...rest: unknown[]]
>

/** What the response to a create has in addition to its text, at most. */
const ENVELOPE = 512

/** The callers that request threads know, by key ID: as they were when a thread asked last. */
export class SharedCallers {
  readonly #byKeyId = new Map<string, Caller>()

  get(keyId: string): Caller | undefined {
    return this.#byKeyId.get(keyId)
  }

  set(caller: Caller): void {
    this.#byKeyId.delete(caller.keyId)
    const [oldest] = this.#byKeyId.keys()
    if (this.#byKeyId.size >= MAX_KEYS && oldest !== undefined) this.#byKeyId.delete(oldest)
    this.#byKeyId.set(caller.keyId, caller)
  }
}

/** The calls of one thread. */
export class ThreadCalls {
  readonly #options: ThreadCallsOptions
  readonly #callers: SharedCallers
  readonly #port: Pick<TurnPort<ToThread>, 'send'>
  readonly #pending = new TransientMap<number, PendingResponse>()
  /** Bytes of responses that the thread has not written yet. */
  readonly #unsent = new Map<number, { readonly account: string; readonly bytes: number }>()

  constructor(options: ThreadCallsOptions, callers: SharedCallers, port: Pick<TurnPort<ToThread>, 'send'>) {
    this.#options = options
    this.#callers = callers
    this.#port = port
  }

  received(message: Call): void {
    const [kind, call] = message
    switch (kind) {
      case 'create': {
        const [, , keyId, bodyBytes, waitMs, jobs] = message
        const caller = this.#callers.get(keyId)
        if (caller === undefined) this.#port.send(['forward', call])
        else void this.#create(call, caller, bodyBytes, waitMs, jobs)
        return
      }
      case 'read':
        void this.#read(call, message[2], message[3])
        return
      case 'authenticate':
        void this.#authenticate(call, message[2])
        return
      case 'leave':
        this.#pending.get(call)?.leave()
        return
      case 'sent':
        this.#sent(call)
    }
  }

  async #authenticate(call: number, key: string): Promise<void> {
    const { authentication } = this.#options
    try {
      const found = authentication.find(key)
      const caller = found instanceof Promise ? await found : found
      if (caller === null) throw new Error('the key is not valid')
      this.#callers.set(caller)
      const { keyId, account, tier, suspended } = caller
      const freshMs = authentication.freshForMs(key)
      this.#port.send(['caller', call, keyId, account, tier.name, suspended, freshMs])
    } catch {
      this.#port.send(['forward', call])
    }
  }

  async #create(
    call: number,
    caller: Caller,
    bodyBytes: number,
    waitMs: number | null,
    cells: readonly JobCells[],
  ): Promise<void> {
    const { bytes, creator, pendingResponses } = this.#options
    const { account } = caller
    const held = bytesOfRequest(bodyBytes, waitMs !== null)
    if (bytes.requests.tryReserve(account, held) !== 'granted') {
      this.#port.send(['forward', call])
      return
    }
    const jobs = cells.map((one) => jobOf(one, caller))
    const [first] = jobs
    const pending =
      waitMs === null || first === undefined ? null : pendingResponses.add(first.id, account, waitMs)
    if (pending !== null) this.#pending.set(call, pending)
    try {
      await creator.accept({ jobs, caller, idempotency: null }, pending !== null)
      if (waitMs === null) this.#port.send(['accepted', call])
      else if (pending === null) this.#port.send(['not ended', call, 'timeout'])
      else this.#ended(call, account, await pending.ended)
    } catch (error) {
      pending?.leave()
      if (error instanceof StoreUnavailable) {
        this.#options.onUnavailable(error)
        this.#port.send(['unavailable', call])
      } else {
        // Nothing was created. The HTTP server meets the same error, and reports it.
        this.#port.send(['forward', call])
      }
    } finally {
      this.#pending.delete(call)
      bytes.requests.release(account, held)
    }
  }

  #ended(call: number, account: string, end: WaitEnd): void {
    if (end.kind !== 'settled') {
      this.#port.send(['not ended', call, end.kind])
      return
    }
    const { status, contentJson, errorJson } = end.record
    const length = (contentJson?.length ?? 0) + (errorJson?.length ?? 0) + ENVELOPE
    const isLarge = length > LARGE_ANSWER
    const bytes = answerBytes(length)
    // The job has ended and was paid for. An account whose clients read slowly can read it later.
    if (isLarge && this.#options.bytes.answers.tryReserve(account, bytes) !== 'granted') {
      this.#port.send(['not ended', call, 'too large'])
      return
    }
    if (isLarge) this.#unsent.set(call, { account, bytes })
    this.#port.send(['ended', call, status, contentJson, errorJson, end.cacheHit, isLarge])
  }

  #sent(call: number): void {
    const unsent = this.#unsent.get(call)
    if (unsent === undefined) return
    this.#unsent.delete(call)
    this.#options.bytes.answers.release(unsent.account, unsent.bytes)
  }

  async #read(call: number, keyId: string, jobId: string): Promise<void> {
    const { readCounter, store, clock, retentionMs } = this.#options
    const caller = this.#callers.get(keyId)
    if (caller === undefined) {
      this.#port.send(['forward', call])
      return
    }
    const { readsPerMinute } = caller.tier
    const { reads, leftMs } = readCounter.add(keyId)
    const expiry = { nowMs: clock.nowMs(), retentionMs }
    const isAllowed = reads <= readsPerMinute
    const record = isAllowed
      ? await store.read(caller.account, jobId, expiry, LARGE_ANSWER).catch(() => null)
      : null
    if (record === null || record.omittedBytes > 0) {
      // The HTTP server counts it again.
      readCounter.undo(keyId)
      this.#port.send(['forward', call])
      return
    }
    const { status, createdAtMs, contentJson, errorJson } = record
    this.#port.send(['record', call, status, createdAtMs, contentJson, errorJson, reads, leftMs])
  }
}

function bytesOfRequest(bodyBytes: number, waits: boolean): number {
  const whole = requestBytes(bodyBytes)
  return waits && whole > SMALL_BYTES ? waitingRequestBytes(bodyBytes) : whole
}

function jobOf(cells: JobCells, { account, tier }: Caller): Job {
  const [id, model, messagesJson, responseFormatJson, cacheTtlMs, callbackJson, createdAtMs, inputTokens] =
    cells
  return {
    id,
    account,
    tier: tier.name,
    model,
    messagesJson,
    responseFormatJson,
    cacheTtlMs,
    callbackJson,
    createdAtMs,
    inputTokens,
  }
}
