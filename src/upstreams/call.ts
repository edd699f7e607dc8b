/**
 * Makes one HTTP request to a model server and reads the response, limited in time and size. The class implements undici's
 * dispatch interface, because undici's `request` creates a stream for every body, which costs more than anything else here
 * except the sockets.
 */
import { isMarkedAsUntransferable } from 'node:worker_threads'
import type { Dispatcher } from 'undici'
import type { Clock } from '../clock.ts'
import { Stop, type StopListener, type StopSignal } from '../job/stop.ts'
import type { FairSlots } from '../sharing/fair-slots.ts'

/** An error body is discarded if it is longer than this, because it would not explain more. */
const MAX_ERROR_BODY_BYTES = 64 * 1024

export interface CallLimits {
  readonly clock: Clock
  readonly timeoutMs: number
  readonly maxAnswerBytes: number
  /** The memory for large answers is limited: all but a few are paused. None is dropped, because they were paid for. */
  readonly largeAnswers: FairSlots
}

type Headers = { readonly [name: string]: string | string[] | undefined }

export type CallEnd =
  | {
      readonly kind: 'response'
      readonly status: number
      readonly headers: Headers
      readonly body: Buffer | null
    }
  /** The connection failed. `status` is null if no response had begun. */
  | { readonly kind: 'connection error'; readonly status: number | null; readonly code: string }
  | { readonly kind: 'too large'; readonly status: number }
  | { readonly kind: 'timed out'; readonly status: number | null }
  | { readonly kind: 'aborted' }

const EMPTY = Buffer.alloc(0)
const ABORTED = new Error('The call was aborted.')

/**
 * A call ends with the first of these events: response, connection error, timeout, excess size, stop signal. Unless the
 * response ended the call, the call closes the connection.
 */
export class Call implements Dispatcher.DispatchHandler, StopListener {
  readonly ended: Promise<CallEnd>
  readonly #resolve: (end: CallEnd) => void
  readonly #limits: CallLimits
  readonly #account: string
  readonly #signal: StopSignal
  readonly #cancelTimeout: () => void
  #controller: Dispatcher.DispatchController | null = null
  #isEnded = false
  #status: number | null = null
  #headers: Headers = {}
  #maxBytes = 0
  #receivedBytes = 0
  #body: Buffer | ResponseBody | null = null
  #largeAnswerSlot: LargeAnswerSlot | null = null

  constructor(limits: CallLimits, account: string, signal: StopSignal) {
    const { promise, resolve } = Promise.withResolvers<CallEnd>()
    this.ended = promise
    this.#resolve = resolve
    this.#limits = limits
    this.#account = account
    this.#signal = signal
    this.#cancelTimeout = limits.clock.after(limits.timeoutMs, () => {
      this.#abort({ kind: 'timed out', status: this.#status })
    })
    signal.listen(this)
  }

  onStop(): void {
    this.#abort({ kind: 'aborted' })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // The call may have been aborted while it waited for a connection.
    if (this.#isEnded) controller.abort(ABORTED)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    // 1xx responses precede the final one.
    if (status < 200 || this.#isEnded) return
    this.#status = status
    this.#headers = headers
    this.#maxBytes = status < 300 ? this.#limits.maxAnswerBytes : MAX_ERROR_BODY_BYTES
    if (Number(headers['content-length'] ?? 0) > this.#maxBytes) this.#rejectBody(status)
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Buffer): void {
    if (this.#isEnded || this.#status === null) return
    this.#receivedBytes += piece.length
    if (this.#receivedBytes > this.#maxBytes) {
      this.#rejectBody(this.#status)
      return
    }
    if (this.#body === null) this.#body = piece
    else {
      if (!(this.#body instanceof ResponseBody)) this.#body = new ResponseBody(this.#body)
      this.#body.add(piece)
    }
    if (this.#receivedBytes > LARGE_ANSWER_BYTES) {
      this.#largeAnswerSlot ??= new LargeAnswerSlot(this.#limits.largeAnswers, this.#account, controller)
    }
  }

  onResponseEnd(): void {
    if (this.#isEnded) return
    const status = this.#status
    if (status === null) this.#end({ kind: 'connection error', status, code: 'no response' })
    else {
      const body = this.#body instanceof ResponseBody ? this.#body.toBuffer() : (this.#body ?? EMPTY)
      this.#end({ kind: 'response', status, headers: this.#headers, body })
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
    // Only this process closes a pool, so the server is not at fault.
    if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED') this.#end({ kind: 'aborted' })
    else this.#end({ kind: 'connection error', status: this.#status, code })
  }

  #rejectBody(status: number): void {
    if (status < 300) this.#abort({ kind: 'too large', status })
    else this.#abort({ kind: 'response', status, headers: this.#headers, body: null })
  }

  #abort(end: CallEnd): void {
    if (this.#isEnded) return
    this.#end(end)
    this.#controller?.abort(ABORTED)
  }

  #end(end: CallEnd): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#cancelTimeout()
    this.#signal.unlisten(this)
    this.#largeAnswerSlot?.release()
    if (this.#body instanceof ResponseBody) this.#body.discard()
    this.#body = null
    this.#resolve(end)
  }
}

/** After this many bytes, a response is paused until it has a slot for large answers. */
export const LARGE_ANSWER_BYTES = 64 * 1024
const SMALL_PIECE_BYTES = 2 * 1024
const BLOCK_BYTES = 16 * 1024

/**
 * Collects pieces without concatenating them, because a body that turns out to be too large would briefly need twice its size.
 * Very small pieces share a block, because a buffer costs more memory than its bytes. Nearly every answer arrives in one piece
 * and needs no `ResponseBody`.
 */
class ResponseBody {
  readonly #pieces: Buffer[]
  #block: Buffer | null = null
  #blockUsed = 0
  #lastReceived: ArrayBufferLike

  constructor(first: Buffer) {
    this.#pieces = [first]
    this.#lastReceived = first.buffer
  }

  /** The caller must not use the piece afterwards. */
  add(piece: Buffer): void {
    this.#lastReceived = piece.buffer
    if (piece.length >= SMALL_PIECE_BYTES) {
      this.#pieces.push(piece)
      this.#block = null
      return
    }
    if (this.#block === null || this.#blockUsed + piece.length > this.#block.length) {
      this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
      this.#blockUsed = 0
      this.#pieces.push(this.#block.subarray(0, 0))
    }
    piece.copy(this.#block, this.#blockUsed)
    this.#blockUsed += piece.length
    this.#pieces[this.#pieces.length - 1] = this.#block.subarray(0, this.#blockUsed)
  }

  toBuffer(): Buffer {
    return Buffer.concat(this.#pieces)
  }

  /**
   * Frees the memory at once, because V8 collects dropped buffers only after 64 MB of them. The buffer of the last piece is not
   * freed, because it may contain data that the connection has yet to parse.
   */
  discard(): void {
    for (const { buffer } of this.#pieces) {
      if (buffer !== this.#lastReceived) free(buffer)
    }
    this.#pieces.length = 0
  }
}

/** Does nothing for memory that several buffers share, such as that of small buffers. */
function free(buffer: ArrayBufferLike): void {
  if (!(buffer instanceof ArrayBuffer) || buffer.detached || isMarkedAsUntransferable(buffer)) return
  buffer.transfer(0)
}

/** All accounts have the same weight, because a slot is held only while an answer arrives. */
const WEIGHT = 1

/** The response is paused until the slot is acquired. */
class LargeAnswerSlot {
  readonly #slots: FairSlots
  readonly #account: string
  readonly #released = new Stop()
  #held = false

  constructor(slots: FairSlots, account: string, controller: Dispatcher.DispatchController) {
    this.#slots = slots
    this.#account = account
    const acquired = slots.acquire(account, WEIGHT, this.#released)
    if (typeof acquired === 'boolean') {
      this.#held = acquired
      return
    }
    controller.pause()
    // The response resumes in a microtask, because undici's parser must not be resumed in the callback of another response.
    void acquired.then((isHeld) => {
      if (!isHeld) return
      if (this.#released.reason !== null) {
        slots.release(account)
        return
      }
      this.#held = true
      controller.resume()
    })
  }

  release(): void {
    this.#released.now('release')
    if (this.#held) this.#slots.release(this.#account)
    this.#held = false
  }
}
