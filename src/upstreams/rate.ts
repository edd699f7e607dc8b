/**
 * Lets requests wait on this node for a rate, such as the tokens per minute of an upstream, by priority and fairly between
 * accounts by tokens, until rate-window.ts permits the next one. Nothing overtakes the next request, however large it is. A
 * request larger than a minute's limit is sent when nothing else was sent for a minute.
 */
import type { Clock } from '../clock.ts'
import { LowerTurns, PRIORITIES, type Priority } from '../job/priority.ts'
import type { StopListener, StopSignal } from '../job/stop.ts'
import type { ServerRate } from './model-server.ts'
import { type Amounts, type Ask, type Granted, newRateState, exchange as settle } from './rate-window.ts'

/** The pauses between exchanges of a shared rate: while requests wait, and while something is held or must be reported. */
const LEAST_PAUSE_MS = 500
const PAUSE_MS = 1_000
/** Bounds on how many requests wait here, so that the next ones are known; the others stay queued. */
const LEAST_WAITING = 8
const MOST_WAITING = 256
/** The weight of the latest request in the average size. */
const LATEST = 0.1

/** Keeps the state of a rate, for this node alone or shared between nodes. */
export interface RateBook {
  /** Whether the rate has an effect now. */
  readonly isOn: () => boolean
  /** Whether other nodes use the same rate. */
  readonly isShared: boolean
  /** See rate-window.ts. Returns a promise only if the state is shared. If it rejects, nothing has changed. */
  exchange(limits: Amounts, ask: NodeAsk): Granted | Promise<Granted>
}

export type NodeAsk = Omit<Ask, 'node'>

export interface RateRequest {
  readonly account: string
  /** The weight of the account's tier. */
  readonly weight: number
  readonly priority?: Priority | undefined
  /** The estimated tokens. */
  readonly tokens: number
}

interface WaitingRequest extends StopListener {
  readonly account: string
  readonly weight: number
  readonly priority: Priority
  readonly tokens: number
  readonly signal: StopSignal
  readonly resolve: (reservation: Reservation | null) => void
}

/** By account, in the order in which they came. */
type Waiting = Map<string, Set<WaitingRequest>>

/** A state in memory, for this node alone. */
export function ownBook(clock: Pick<Clock, 'steadyMs'>): RateBook {
  const state = newRateState(clock.steadyMs())
  return {
    isOn: () => true,
    isShared: false,
    exchange: (limits, ask) => settle(state, limits, { node: '', ...ask }, clock.steadyMs()),
  }
}

export class Rate {
  readonly #configured: Amounts
  #limits: Amounts
  readonly #book: RateBook
  readonly #clock: Pick<Clock, 'steadyMs' | 'after'>
  /** Each request that waits has a slot of the node. */
  mostWaiting = MOST_WAITING
  /** What this node may send, and the part of it that requests have reserved. */
  #held = { requests: 0, tokens: 0 }
  #reserved = { requests: 0, tokens: 0 }
  /** What the next exchange reports. */
  #used: { atMs: number; requests: number; tokens: number }[] = []
  #left: NodeAsk['left'] = null
  #leftAtMs = 0
  #blockedUntilMs = 0
  /** How many requests were served since the last exchange: about as many are expected until the next. */
  #recent = 0
  /** The requests that wait, by priority and account. Accounts without any are removed, so that they cost no time. */
  readonly #queues: Record<Priority, Waiting> = { high: new Map(), normal: new Map(), low: new Map() }
  /** The turn of each account: the tokens that it was granted, divided by its weight. A new account starts at the current turn. */
  readonly #turns = new Map<string, number>()
  /** With this many accounts, those that have no more than others are forgotten. */
  #forgetAt = MOST_WAITING
  readonly #priorities = new LowerTurns()
  /** The turn of the last account that was served. */
  #turn = 0
  #head: WaitingRequest | null = null
  #waiting = 0
  #averageTokens = 0
  #isAsking = false
  #isClosed = false
  /** Asking earlier is useless. */
  #retryAtMs = 0
  /** When the last exchange was answered. */
  #exchangedAtMs = Number.NEGATIVE_INFINITY
  #cancelTimer: (() => void) | null = null

  constructor(limits: Amounts, book: RateBook, clock: Pick<Clock, 'steadyMs' | 'after'>) {
    this.#configured = limits
    this.#limits = limits
    this.#book = book
    this.#clock = clock
  }

  get limits(): Amounts {
    return this.#limits
  }

  get waiting(): number {
    return this.#waiting
  }

  /** How many more jobs should come here: about as many as can be sent in a second may wait. */
  get room(): number {
    if (!this.#book.isOn()) return Number.POSITIVE_INFINITY
    return Math.min(this.mostWaiting, Math.max(LEAST_WAITING, Math.ceil(this.#perSecond))) - this.#waiting
  }

  /**
   * Waits until a request with so many tokens may be sent. Null if the signal or `close` ended the wait. Returns a promise only if
   * it has to wait.
   */
  reserve(request: RateRequest, signal: StopSignal): Reservation | null | Promise<Reservation | null> {
    if (signal.reason !== null) return null
    const { account, weight, tokens } = request
    if (!this.#book.isOn()) return new Reservation(this, { requests: 0, tokens: 0 }, tokens)
    const average = this.#averageTokens || tokens
    this.#averageTokens = average + (tokens - average) * LATEST
    if (this.#waiting === 0) {
      const reservation = this.#take(tokens)
      if (reservation !== null) {
        this.#served(account, weight, tokens)
        return reservation
      }
    }
    if (this.#isClosed) return null
    return new Promise((resolve) => {
      const waiting: WaitingRequest = {
        ...request,
        priority: request.priority ?? 'normal',
        signal,
        resolve,
        onStop: () => {
          this.#remove(waiting)
          resolve(null)
          if (!this.#book.isShared) this.#retryAtMs = 0
          this.#serve()
        },
      }
      signal.listen(waiting)
      this.#add(waiting)
      this.#serve()
    })
  }

  /** Ends a reservation: the amounts were sent, or are not needed. */
  release(amounts: Amounts, isSent: boolean): void {
    add(this.#reserved, amounts, -1)
    if (!isSent) {
      if (!this.#book.isShared) this.#retryAtMs = 0
      this.#serve()
    } else {
      add(this.#held, amounts, -1)
      this.used(amounts, this.#clock.steadyMs())
    }
  }

  /** Records that more was sent than reserved; less if negative. */
  used({ requests, tokens }: Amounts, atMs: number): void {
    if (requests === 0 && tokens === 0) return
    this.#used.push({ atMs, requests, tokens })
    if (tokens < 0 && !this.#book.isShared) this.#retryAtMs = 0
    this.#plan()
  }

  /**
   * Records the limits in a server's response.
   * @param isAlone whether they must concern this rate; otherwise only a limit equal to the configured one counts
   */
  serverSays({ limit, left, resetMs }: ServerRate, isAlone: boolean): void {
    const configured = this.#configured
    const known = (name: keyof Amounts) => {
      const isIt = Number.isFinite(configured[name]) && (isAlone || limit[name] === configured[name])
      return isIt ? left[name] : Number.POSITIVE_INFINITY
    }
    this.#leftAtMs = this.#clock.steadyMs()
    this.#left = { requests: known('requests'), tokens: known('tokens'), resetMs }
    if (!isAlone) return
    const { requests, tokens } = configured
    this.#limits = { requests: Math.min(requests, limit.requests), tokens: Math.min(tokens, limit.tokens) }
  }

  /** Records that the server accepts nothing for this long. */
  block(ms: number): void {
    this.#blockedUntilMs = Math.max(this.#blockedUntilMs, this.#clock.steadyMs() + ms)
    this.#retryAtMs = 0
    this.#plan()
  }

  /** The node stops: nothing waits here any longer, and what it holds for further requests is returned to others. */
  close(): void {
    this.#isClosed = true
    const queues = Object.values(this.#queues)
    for (const waiting of queues.flatMap((queue) =>
      [...queue.values()].flatMap((requests) => [...requests]),
    )) {
      this.#remove(waiting)
      waiting.signal.unlisten(waiting)
      waiting.resolve(null)
    }
    this.#recent = 0
    if (this.#book.isShared && this.#isOpen) this.#ask(null)
  }

  /** Reserves a request with so many tokens; null if it does not fit now. */
  #take(tokens: number): Reservation | null {
    // A request with more tokens than the limit reserves the whole limit, so it is sent once nothing else has been sent for a
    // minute. Otherwise it would wait forever.
    const amounts = { requests: 1, tokens: Math.min(tokens, this.#limits.tokens) }
    if (!this.#fits(amounts) && !this.#book.isShared) this.#ask(amounts)
    if (!this.#fits(amounts)) return null
    add(this.#reserved, amounts)
    this.#recent += 1
    return new Reservation(this, amounts, tokens)
  }

  #fits({ requests, tokens }: Amounts): boolean {
    if (this.#clock.steadyMs() < this.#blockedUntilMs) return false
    const free = this.#free
    return requests <= free.requests && tokens <= free.tokens
  }

  get #free(): Amounts {
    const { requests, tokens } = this.#reserved
    return { requests: this.#held.requests - requests, tokens: this.#held.tokens - tokens }
  }

  /** Serves the requests that fit, then asks for more for the next one. */
  #serve(): void {
    for (let head = this.#next(); head !== null; head = this.#next()) {
      const reservation = this.#book.isOn()
        ? this.#take(head.tokens)
        : new Reservation(this, { requests: 0, tokens: 0 }, head.tokens)
      if (reservation === null) break
      this.#remove(head)
      const { priority, account, weight, tokens } = head
      this.#served(account, weight, tokens)
      this.#priorities.started(priority, 1, (lower) => this.#hasWaiting(lower))
      head.signal.unlisten(head)
      head.resolve(reservation)
    }
    this.#plan()
  }

  /** Sets the timer for the next exchange. */
  #plan(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
    if (this.#isAsking) return
    const { isShared } = this.#book
    if (this.#waiting === 0 && !(isShared && this.#isOpen)) return
    // However often this is called, the exchange is not postponed.
    const atMs = this.#waiting > 0 ? this.#retryAtMs : this.#exchangedAtMs + PAUSE_MS
    const inMs = atMs - this.#clock.steadyMs()
    if (isShared && this.#waiting > 0 && inMs <= 0) this.#askForHead()
    else {
      this.#cancelTimer = this.#clock.after(Math.max(1, inMs), () => {
        this.#cancelTimer = null
        if (isShared) this.#askForHead()
        else this.#serve()
      })
    }
  }

  /** Whether there is something to report or to return. */
  get #isOpen(): boolean {
    return this.#used.length > 0 || this.#held.requests > 0 || this.#held.tokens > 0
  }

  #askForHead(): void {
    const head = this.#next()
    this.#ask(head === null ? null : { requests: 1, tokens: Math.min(head.tokens, this.#limits.tokens) })
  }

  /** @param next what the next request needs; null if none waits */
  #ask(next: Amounts | null): void {
    if (this.#isAsking) return
    const nowMs = this.#clock.steadyMs()
    const { isShared } = this.#book
    if (!isShared && nowMs < this.#retryAtMs) return
    const used = this.#used.map(({ atMs, ...amounts }) => ({ agoMs: nowMs - atMs, ...amounts }))
    // Returns what is useless until the next request fits; otherwise nodes that each hold a part could wait for each other.
    const { requests, tokens } = this.#free
    const isShort = isShared && next !== null && (next.requests > requests || next.tokens > tokens)
    if (isShort || (next === null && this.#recent === 0)) this.#held = { ...this.#reserved }
    const free = this.#free
    const needs = {
      requests: Math.max(0, (next?.requests ?? 0) - free.requests),
      tokens: Math.max(0, (next?.tokens ?? 0) - free.tokens),
    }
    const more = isShared && next !== null ? this.#soon : { requests: 0, tokens: 0 }
    const ask: NodeAsk = {
      used,
      held: { ...this.#held },
      needs,
      wants: { requests: needs.requests + more.requests, tokens: needs.tokens + more.tokens },
      left: nowMs - this.#leftAtMs <= PAUSE_MS ? this.#left : null,
      blockMs: Math.max(0, this.#blockedUntilMs - nowMs),
    }
    const reported = this.#used
    this.#used = []
    this.#left = null
    this.#recent = 0
    const granted = this.#book.exchange(this.#limits, ask)
    if (!(granted instanceof Promise)) {
      this.#granted(granted)
      return
    }
    this.#isAsking = true
    void granted
      .catch((): Granted => {
        this.#used = [...reported, ...this.#used]
        return { requests: 0, tokens: 0, retryMs: PAUSE_MS, isSame: true }
      })
      .then((answer) => {
        this.#isAsking = false
        this.#granted(answer)
        this.#serve()
      })
  }

  #granted(granted: Granted): void {
    add(this.#held, granted)
    this.#exchangedAtMs = this.#clock.steadyMs()
    const pauseMs = this.#book.isShared
      ? Math.min(PAUSE_MS, Math.max(LEAST_PAUSE_MS, granted.retryMs))
      : granted.retryMs
    this.#retryAtMs = granted.retryMs === 0 ? 0 : this.#exchangedAtMs + pauseMs
  }

  /** What further requests are expected to need until the next exchange, at most a second's worth. */
  get #soon(): Amounts {
    const perSecond = Math.min(this.#perSecond, Math.max(this.#waiting - 1, this.#recent))
    const requests = Math.floor((perSecond * PAUSE_MS) / 1000)
    return { requests, tokens: Math.ceil(requests * this.#averageTokens) }
  }

  get #perSecond(): number {
    const { requests, tokens } = this.#limits
    return Math.min(requests, tokens / Math.max(1, this.#averageTokens)) / 60
  }

  /** The request to serve next; it does not change until it is served. */
  #next(): WaitingRequest | null {
    if (this.#waiting === 0) return null
    if (this.#head !== null) return this.#head
    const due = PRIORITIES.filter(
      (priority) => this.#hasWaiting(priority) && this.#priorities.due(priority) > 0,
    )
    const [priority] = [...due, ...PRIORITIES.filter((one) => this.#hasWaiting(one))]
    if (priority === undefined) return null
    let next: WaitingRequest | null = null
    let turn = Number.POSITIVE_INFINITY
    for (const [account, [first]] of this.#queues[priority]) {
      const own = this.#turns.get(account) ?? 0
      if (first === undefined || own >= turn) continue
      next = first
      turn = own
    }
    this.#head = next
    return next
  }

  #hasWaiting(priority: Priority): boolean {
    return this.#queues[priority].size > 0
  }

  #add(waiting: WaitingRequest): void {
    const { account, priority } = waiting
    const queue = this.#queues[priority]
    const requests = queue.get(account)
    if (requests === undefined) queue.set(account, new Set([waiting]))
    else requests.add(waiting)
    this.#turns.set(account, this.#turnOf(account))
    this.#waiting += 1
  }

  #remove(waiting: WaitingRequest): void {
    const { account, priority } = waiting
    const requests = this.#queues[priority].get(account)
    if (!requests?.delete(waiting)) return
    if (requests.size === 0) this.#queues[priority].delete(account)
    this.#waiting -= 1
    if (this.#head === waiting) this.#head = null
  }

  #served(account: string, weight: number, tokens: number): void {
    const turn = this.#turnOf(account)
    this.#turn = turn
    this.#turns.set(account, turn + tokens / weight)
    if (this.#turns.size > this.#forgetAt) this.#forget()
  }

  #turnOf(account: string): number {
    return Math.max(this.#turn, this.#turns.get(account) ?? 0)
  }

  /** Forgets accounts that have no more than others, unless one of their requests waits. */
  #forget(): void {
    for (const [account, turn] of this.#turns) {
      const isIdle = PRIORITIES.every((priority) => !this.#queues[priority].has(account))
      if (isIdle && turn <= this.#turn) this.#turns.delete(account)
    }
    this.#forgetAt = Math.max(MOST_WAITING, 2 * this.#turns.size)
  }
}

/** The right to send a request. It is released once; afterwards, differences from the estimate are corrected. */
export class Reservation {
  readonly rate: Rate
  readonly #amounts: Amounts
  /** The estimate, which may be more than a minute's limit. */
  readonly tokens: number
  #sentAtMs: number | null = null
  #isReleased = false

  constructor(rate: Rate, amounts: Amounts, tokens: number) {
    this.rate = rate
    this.#amounts = amounts
    this.tokens = tokens
  }

  /** Whether the rate had an effect when the request was sent. */
  get isCounted(): boolean {
    return this.#amounts.requests > 0
  }

  /** Whether it is larger than a whole minute. */
  get isTooLarge(): boolean {
    return this.tokens > this.rate.limits.tokens
  }

  /** Records that a request is sent; it may be the second one, if the server rejected the format of the first. */
  sent(atMs: number): void {
    this.#sentAtMs = atMs
    if (this.#isReleased) this.rate.used(this.#amounts, atMs)
    else {
      this.#isReleased = true
      this.rate.release(this.#amounts, true)
    }
  }

  /** Records how many tokens the last request used. */
  usedTokens(tokens: number): void {
    const more = tokens - this.#amounts.tokens
    if (this.#sentAtMs !== null && this.isCounted)
      this.rate.used({ requests: 0, tokens: more }, this.#sentAtMs)
  }

  end(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.rate.release(this.#amounts, false)
  }
}

function add(
  to: { requests: number; tokens: number },
  { requests, tokens }: Amounts,
  sign: 1 | -1 = 1,
): void {
  to.requests += sign * requests
  to.tokens += sign * tokens
}
