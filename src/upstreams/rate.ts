/**
 * Lets requests on this node wait for a rate, such as the tokens per minute of an upstream. Requests are sent by priority, and
 * fairly between accounts by tokens, when the state of the rate (rate-window.ts) permits. Nothing overtakes the next request,
 * however large it is. A request larger than a minute's limit is sent when nothing else was sent for a minute.
 */
import type { Clock } from '../clock.ts'
import { LowerTurns, PRIORITIES, type Priority } from '../job/priority.ts'
import type { StopListener, StopSignal } from '../job/stop.ts'
import type { ServerRate } from './model-server.ts'
import { type Amounts, type Ask, type Granted, newRateState, exchange as settle } from './rate-window.ts'

/**
 * The pause between two exchanges of a shared rate is between these times while requests wait, and otherwise the longer one.
 */
const LEAST_PAUSE_MS = 500
const PAUSE_MS = 1_000
/**
 * The room for waiting requests is between these numbers, so that the next request is usually known. Further jobs stay in the
 * queue.
 */
const LEAST_WAITING = 8
const MOST_WAITING = 256
const LATEST = 0.1

/** Records what was sent and granted under one rate limit, for this node alone or for all nodes together. */
export interface RateBook {
  /** Returns whether the rate has an effect now. A shared rate has none while a node of an earlier version is running. */
  readonly isOn: () => boolean
  readonly isShared: boolean
  /** See `exchange` in rate-window.ts. Only a shared state needs a promise. If it rejects, nothing has changed. */
  exchange(limits: Amounts, ask: NodeAsk): Granted | Promise<Granted>
}

export type NodeAsk = Omit<Ask, 'node'>

export interface RateRequest {
  readonly account: string
  readonly weight: number
  readonly priority?: Priority | undefined
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

type Waiting = Map<string, Set<WaitingRequest>>

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
  /** Each waiting request holds a slot of the node, so the router lowers this. */
  mostWaiting = MOST_WAITING
  #held = { requests: 0, tokens: 0 }
  #reserved = { requests: 0, tokens: 0 }
  #used: { atMs: number; requests: number; tokens: number }[] = []
  #left: NodeAsk['left'] = null
  #leftAtMs = 0
  #blockedUntilMs = 0
  /** This many requests were served since the last exchange. About as many are expected before the next one. */
  #recent = 0
  /** Accounts without waiting requests are removed, so that they cost no time. */
  readonly #queues: Record<Priority, Waiting> = { high: new Map(), normal: new Map(), low: new Map() }
  /**
   * The turn of an account grows by its granted tokens, divided by its weight. An account whose turn has passed starts at the
   * current turn.
   */
  readonly #turns = new Map<string, number>()
  /** Once this many accounts have a turn, idle accounts whose turn has passed are forgotten. */
  #forgetAt = MOST_WAITING
  readonly #priorities = new LowerTurns()
  #turn = 0
  #head: WaitingRequest | null = null
  #waiting = 0
  #averageTokens = 0
  #isAsking = false
  #isClosed = false
  /** No exchange is made for waiting requests before this time. */
  #retryAtMs = 0
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

  /** How many more requests may wait here. Together, about as many may wait as can be sent in a second. */
  get room(): number {
    if (!this.#book.isOn()) return Number.POSITIVE_INFINITY
    return Math.min(this.mostWaiting, Math.max(LEAST_WAITING, Math.ceil(this.#perSecond))) - this.#waiting
  }

  /**
   * Waits until a request with this many tokens may be sent. The result is null if the signal stopped the request or the rate
   * was closed, and a promise only if the request must wait.
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

  /** Ends a reservation, because the amounts were sent or are not needed. */
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

  /** Records that more was sent than was reserved, or less if the amounts are negative. */
  used({ requests, tokens }: Amounts, atMs: number): void {
    if (requests === 0 && tokens === 0) return
    this.#used.push({ atMs, requests, tokens })
    if (tokens < 0 && !this.#book.isShared) this.#retryAtMs = 0
    this.#plan()
  }

  /**
   * @param isAlone whether the reported limits certainly concern this rate; otherwise a limit counts only if it equals the
   * configured one
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

  block(ms: number): void {
    this.#blockedUntilMs = Math.max(this.#blockedUntilMs, this.#clock.steadyMs() + ms)
    this.#retryAtMs = 0
    this.#plan()
  }

  /** Ends all waits, because the node stops, and returns to other nodes what this one holds for further requests. */
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

  #take(tokens: number): Reservation | null {
    // A request with more tokens than the limit reserves the whole limit, so it is sent once nothing else was sent for a
    // minute. If it reserved all its tokens, it would wait forever.
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

  #plan(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
    if (this.#isAsking) return
    const { isShared } = this.#book
    if (this.#waiting === 0 && !(isShared && this.#isOpen)) return
    // This method may be called often, so it computes the time of the exchange from fixed times and never postpones it.
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

  get #isOpen(): boolean {
    return this.#used.length > 0 || this.#held.requests > 0 || this.#held.tokens > 0
  }

  #askForHead(): void {
    const head = this.#next()
    this.#ask(head === null ? null : { requests: 1, tokens: Math.min(head.tokens, this.#limits.tokens) })
  }

  #ask(next: Amounts | null): void {
    if (this.#isAsking) return
    const nowMs = this.#clock.steadyMs()
    const { isShared } = this.#book
    if (!isShared && nowMs < this.#retryAtMs) return
    const used = this.#used.map(({ atMs, ...amounts }) => ({ agoMs: nowMs - atMs, ...amounts }))
    // The node returns what it cannot use before the next request fits. Otherwise several nodes could each hold a part and wait
    // for each other.
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

  /** Returns what further requests will probably need before the next exchange, at most a second's worth. */
  get #soon(): Amounts {
    const perSecond = Math.min(this.#perSecond, Math.max(this.#waiting - 1, this.#recent))
    const requests = Math.floor((perSecond * PAUSE_MS) / 1000)
    return { requests, tokens: Math.ceil(requests * this.#averageTokens) }
  }

  get #perSecond(): number {
    const { requests, tokens } = this.#limits
    return Math.min(requests, tokens / Math.max(1, this.#averageTokens)) / 60
  }

  /** The request to serve next stays the next one until it is served or stopped. */
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

  #forget(): void {
    for (const [account, turn] of this.#turns) {
      const isIdle = PRIORITIES.every((priority) => !this.#queues[priority].has(account))
      if (isIdle && turn <= this.#turn) this.#turns.delete(account)
    }
    this.#forgetAt = Math.max(MOST_WAITING, 2 * this.#turns.size)
  }
}

/** The right to send a request. It is released only once. Afterwards, `sent` and `usedTokens` only correct what was counted. */
export class Reservation {
  readonly rate: Rate
  readonly #amounts: Amounts
  /** The estimate may exceed a minute's limit. */
  readonly tokens: number
  #sentAtMs: number | null = null
  #isReleased = false

  constructor(rate: Rate, amounts: Amounts, tokens: number) {
    this.rate = rate
    this.#amounts = amounts
    this.tokens = tokens
  }

  /** Returns whether the rate had an effect when the request was reserved. */
  get isCounted(): boolean {
    return this.#amounts.requests > 0
  }

  get isTooLarge(): boolean {
    return this.tokens > this.rate.limits.tokens
  }

  /** If the server rejects the format, the request is sent again, and counts again. */
  sent(atMs: number): void {
    this.#sentAtMs = atMs
    if (this.#isReleased) this.rate.used(this.#amounts, atMs)
    else {
      this.#isReleased = true
      this.rate.release(this.#amounts, true)
    }
  }

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
