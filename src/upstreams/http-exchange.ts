/**
 * One HTTP exchange: sends a request over an undici pool and gathers the response, within limits of time and size.
 *
 * It takes undici's dispatch interface and not its `request`, which makes a stream for every body: on this path that is
 * the largest cost after the sockets. The first of response, breakage, deadline, excess and abort settles the exchange;
 * whatever comes later is ignored.
 */
import type { Dispatcher } from 'undici'
import type { Clock } from '../clock.ts'
import { Stop, type StopListener, type StopSignal } from '../job/stop.ts'
import type { Semaphore } from './semaphore.ts'

/** A body that says why a call failed is read up to here; one that is longer explains nothing. */
export const ERROR_BODY_BYTES = 64 * 1024
/** An answer that grows beyond this needs a place at the gate for large answers to grow on. */
export const LARGE_ANSWER_BYTES = 64 * 1024
const SMALL_PIECE_BYTES = 2 * 1024
const BLOCK_BYTES = 16 * 1024

type Headers = { readonly [name: string]: string | string[] | undefined }

/** How an exchange ended. */
export type Ended =
  /** `text` is null where the body of a failure was too long to be of use. */
  | {
      readonly kind: 'response'
      readonly status: number
      readonly headers: Headers
      readonly text: string | null
    }
  /** The connection could not be made, or broke; `status` is null before a response had begun. */
  | { readonly kind: 'broken'; readonly status: number | null; readonly code: string }
  | { readonly kind: 'too_large'; readonly status: number }
  | { readonly kind: 'timed_out'; readonly status: number | null }
  | { readonly kind: 'aborted' }

export interface ExchangeLimits {
  readonly clock: Clock
  readonly timeoutMs: number
  readonly maxAnswerBytes: number
  /**
   * Bounds the memory that all answers of a server together may take: few may be large at once, the others are not read
   * on until there is room. It delays a large answer, and never fails one that has been paid for.
   */
  readonly largeAnswers: Semaphore
}

/** Performs the exchange. Never rejects; when stopped it ends at once, and the connection is closed. */
export function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  limits: ExchangeLimits,
  signal: StopSignal,
): Promise<Ended> {
  if (signal.reason !== null) return Promise.resolve({ kind: 'aborted' })
  return new Promise((resolve) => {
    dispatcher.dispatch(request, new Exchange(limits, signal, resolve))
  })
}

const GIVEN_UP = new Error('The exchange was given up.')

class Exchange implements Dispatcher.DispatchHandler, StopListener {
  readonly #limits: ExchangeLimits
  readonly #signal: StopSignal
  readonly #resolve: (ended: Ended) => void
  readonly #cancelDeadline: () => void
  #controller: Dispatcher.DispatchController | null = null
  #settled = false
  #status: number | null = null
  #headers: Headers = {}
  #maxBytes = 0
  readonly #body = new Body()
  #large: LargePlace | null = null

  constructor(limits: ExchangeLimits, signal: StopSignal, resolve: (ended: Ended) => void) {
    this.#limits = limits
    this.#signal = signal
    this.#resolve = resolve
    this.#cancelDeadline = limits.clock.after(limits.timeoutMs, () => {
      this.#giveUp({ kind: 'timed_out', status: this.#status })
    })
    signal.listen(this)
  }

  onStop(): void {
    this.#giveUp({ kind: 'aborted' })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // It was given up while it waited for a connection.
    if (this.#settled) controller.abort(GIVEN_UP)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    // 1xx responses only announce the real one.
    if (status < 200 || this.#settled) return
    this.#status = status
    this.#headers = headers
    this.#maxBytes = status < 300 ? this.#limits.maxAnswerBytes : ERROR_BODY_BYTES
    if (Number(headers['content-length'] ?? 0) > this.#maxBytes) this.#tooLarge(status)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#settled || this.#status === null) return
    if (this.#body.size + chunk.length > this.#maxBytes) {
      this.#tooLarge(this.#status)
      return
    }
    this.#body.add(chunk)
    if (this.#body.size > LARGE_ANSWER_BYTES && this.#large === null) {
      this.#large = new LargePlace(this.#limits.largeAnswers, controller)
    }
  }

  onResponseEnd(): void {
    if (this.#settled) return
    const status = this.#status
    if (status === null) this.#settle({ kind: 'broken', status: null, code: 'no response' })
    else this.#settle({ kind: 'response', status, headers: this.#headers, text: this.#body.text() })
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
    // Only our own close destroys a pool.
    if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED') this.#settle({ kind: 'aborted' })
    else this.#settle({ kind: 'broken', status: this.#status, code })
  }

  #tooLarge(status: number): void {
    if (status < 300) this.#giveUp({ kind: 'too_large', status })
    else this.#giveUp({ kind: 'response', status, headers: this.#headers, text: null })
  }

  #giveUp(ended: Ended): void {
    if (this.#settled) return
    this.#settle(ended)
    this.#controller?.abort(GIVEN_UP)
  }

  #settle(ended: Ended): void {
    if (this.#settled) return
    this.#settled = true
    this.#cancelDeadline()
    this.#signal.unlisten(this)
    this.#large?.leave()
    this.#body.drop()
    this.#resolve(ended)
  }
}

/**
 * Gathers a body. Nearly every answer comes in one piece, which is kept as it is. Pieces are not copied together while
 * they come, for a body that turns out too large would have cost twice its size; but very small ones share a block,
 * because a piece costs more than its bytes.
 */
class Body {
  size = 0
  #pieces: Buffer[] = []
  #block: Buffer | null = null
  #blockUsed = 0

  add(piece: Buffer): void {
    this.size += piece.length
    if (piece.length >= SMALL_PIECE_BYTES || this.#pieces.length === 0) {
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

  text(): string {
    const [first] = this.#pieces
    if (first === undefined) return ''
    return (this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces, this.size)).toString('utf8')
  }

  drop(): void {
    this.#pieces = []
    this.#block = null
  }
}

/** A large answer's place at the gate: the body rests until it is let in. */
class LargePlace {
  readonly #gate: Semaphore
  readonly #leaving = new Stop()
  #inside = false

  constructor(gate: Semaphore, controller: Dispatcher.DispatchController) {
    this.#gate = gate
    const entered = gate.enter(this.#leaving)
    if (typeof entered === 'boolean') {
      this.#inside = entered
      return
    }
    controller.pause()
    // In a microtask: undici's parser must not be resumed from inside another response's callback.
    void entered.then((inside) => {
      if (inside && this.#leaving.reason !== null) gate.leave()
      else if (inside) {
        this.#inside = true
        controller.resume()
      }
    })
  }

  leave(): void {
    this.#leaving.now('give back')
    if (this.#inside) this.#gate.leave()
    this.#inside = false
  }
}
