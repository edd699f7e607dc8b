/**
 * Updates the state of a *rate* (a limit of requests and tokens per minute): what was sent in the last minute, and what nodes
 * hold and have not sent yet. It decides how much a node gets now. A single node keeps the state in memory; several nodes share
 * it as JSON in the database (app/upstreams.ts).
 *
 * If the estimates of tokens are right:
 *
 * - All nodes together never exceed the limits within 60 s, whether the server counts in fixed or in sliding minutes.
 * - After a pause, at most a sixth of a minute's limit and one more request are granted at once, because servers also limit
 *   parts of a minute.
 * - What a node holds counts from the grant until a minute after it was sent, so a grant never has to be revoked.
 * - If a node's next job does not fit, the node gets what it needs before other nodes get more, so a large job does not starve.
 */

export interface Amounts {
  readonly requests: number
  readonly tokens: number
}

/** The window is slightly more than a minute, because some requests take longer to arrive than others. */
export const WINDOW_MS = 60_500
const MINUTE_MS = 60_000
/** Requests sent in the same half second are counted together, at the end of the half second. */
const CELL_MS = 500
/** After a pause, as much may be sent at once as the limit allows in this time. */
const BURST_MS = 10_000
/**
 * If a node makes no exchange for this time, what it holds counts as sent. Live nodes that hold something make one about every
 * second.
 */
export const HOLD_MS = 15_000
/** Other nodes wait this long for the node whose next job did not fit. */
const TURN_MS = 3_000
/** The server's report counts only if it is below Parley's by more than this fraction, because timings differ. */
const TOLERANCE = 0.05

interface Held extends Amounts {
  readonly untilMs: number
}

/** The state is stored as JSON, which later versions must be able to read. */
export interface RateState {
  used: [atMs: number, requests: number, tokens: number][]
  held: Record<string, Held>
  /** Before these times, no requests or no tokens are granted, to spread them over the minute. */
  paced: { requests: number; tokens: number }
  /** The server accepts nothing before this time, according to its own report. */
  blockedUntilMs: number
  /** The next job of this node did not fit, and lacks these amounts. */
  next: (Held & { readonly node: string }) | null
}

export interface Ask {
  readonly node: string
  /** The node has sent this since the last exchange. Negative amounts correct estimates that were too high. */
  readonly used: readonly { readonly agoMs: number; readonly requests: number; readonly tokens: number }[]
  /** The node still holds this, and has returned or sent everything else. */
  readonly held: Amounts
  /** The next job needs this in addition; 0 if no job waits. */
  readonly needs: Amounts
  /** The node could use this much more; at least `needs`. */
  readonly wants: Amounts
  /** The server has reported that this is left (infinite if not reported), and when the whole limit is available again. */
  readonly left: (Amounts & { readonly resetMs: Amounts }) | null
  readonly blockMs: number
}

export interface Granted extends Amounts {
  /** The node tries again after this time, if less than `needs` was granted. */
  readonly retryMs: number
  /** This is true if nothing that concerns other nodes has changed in the state, so that the state need not be stored. */
  readonly isSame: boolean
}

export const NOTHING: Amounts = { requests: 0, tokens: 0 }

export function newRateState(nowMs: number): RateState {
  const readyMs = nowMs - BURST_MS
  const paced = { requests: readyMs, tokens: readyMs }
  return { used: [], held: {}, paced, blockedUntilMs: readyMs, next: null }
}

/** Updates the state, and returns what the node gets in addition to `ask.held`: at least `ask.needs`, or nothing. */
export function exchange(state: RateState, limits: Amounts, ask: Ask, nowMs: number): Granted {
  const { node, held, needs, wants } = ask
  dropPast(state, node, nowMs)
  const before = state.held[node] ?? { ...NOTHING, untilMs: nowMs }
  let sent = NOTHING
  for (const { agoMs, requests, tokens } of ask.used) {
    if (agoMs < WINDOW_MS) use(state, nowMs - agoMs, { requests, tokens })
    sent = sum(sent, { requests, tokens })
  }
  // If the node sent less than it held, all nodes may send again earlier; if it sent more, later.
  pace(state, limits, difference(sum(sent, held), before), nowMs)
  hold(state, node, held, nowMs)
  const isHeld =
    fits(held, before) && fits(before, held) && (fits(held, NOTHING) || before.untilMs > nowMs + HOLD_MS / 2)
  let isSame = ask.used.length === 0 && isHeld && ask.left === null && ask.blockMs === 0
  state.blockedUntilMs = Math.max(state.blockedUntilMs, nowMs + ask.blockMs)
  believe(state, limits, ask.left, nowMs)

  const free = freeOf(state, limits)
  const isBehind = state.next !== null && state.next.node !== node
  const open = isBehind ? difference(free, state.next ?? NOTHING) : free
  const waitMs = Math.max(state.blockedUntilMs, state.paced.requests, state.paced.tokens) - nowMs
  const isNeeded = needs.requests > 0 || needs.tokens > 0
  if (isNeeded && (waitMs > 0 || !fits(needs, open))) {
    if (!isBehind && !(state.next !== null && state.next.untilMs > nowMs + TURN_MS / 2)) {
      state.next = { node, ...needs, untilMs: nowMs + TURN_MS }
      isSame = false
    }
    return { ...NOTHING, retryMs: Math.max(1, waitMs, untilFree(state, limits, needs, nowMs)), isSame }
  }
  if (!isBehind) state.next = null
  const granted = isNeeded ? least(wants, open) : NOTHING
  hold(state, node, sum(held, granted), nowMs)
  pace(state, limits, granted, nowMs)
  return { ...granted, retryMs: Math.max(0, state.blockedUntilMs - nowMs), isSame: isSame && !isNeeded }
}

function hold(state: RateState, node: string, held: Amounts, nowMs: number): void {
  if (held.requests > 0 || held.tokens > 0) state.held[node] = { ...held, untilMs: nowMs + HOLD_MS }
  else delete state.held[node]
}

/** @param asking the node of this exchange, which is alive even if its last exchange was long ago */
function dropPast(state: RateState, asking: string, nowMs: number): void {
  // The clock of the node that wrote the time may have been ahead.
  for (const entry of state.used) if (entry[0] > nowMs + CELL_MS) entry[0] = nowMs
  state.used = state.used.filter(([atMs]) => atMs + WINDOW_MS > nowMs)
  for (const name of ['requests', 'tokens'] as const) {
    state.paced[name] = Math.min(state.paced[name], nowMs + WINDOW_MS)
  }
  state.blockedUntilMs = Math.min(state.blockedUntilMs, nowMs + WINDOW_MS)
  for (const [node, { untilMs, ...held }] of Object.entries(state.held)) {
    if (untilMs > nowMs || node === asking) continue
    // The node has crashed, and may have sent everything that it held.
    use(state, untilMs, held)
    delete state.held[node]
  }
  if (state.next !== null && state.next.untilMs <= nowMs) state.next = null
}

function use(state: RateState, atMs: number, { requests, tokens }: Amounts): void {
  if (requests === 0 && tokens === 0) return
  const cell = Math.ceil(atMs / CELL_MS) * CELL_MS
  const index = state.used.findLastIndex(([at]) => at <= cell)
  const entry = state.used[index]
  if (entry?.[0] === cell) {
    entry[1] += requests
    entry[2] += tokens
  } else state.used.splice(index + 1, 0, [cell, requests, tokens])
}

function pace(state: RateState, limits: Amounts, amounts: Amounts, nowMs: number): void {
  for (const name of ['requests', 'tokens'] as const) {
    const startMs = Math.max(state.paced[name], nowMs - BURST_MS)
    state.paced[name] = startMs + (amounts[name] / limits[name]) * MINUTE_MS
  }
}

/** Counts what other programs with the same key have used, according to the server, until the server's minute ends. */
function believe(state: RateState, limits: Amounts, left: Ask['left'], nowMs: number): void {
  if (left === null) return
  const free = freeOf(state, limits)
  for (const name of ['requests', 'tokens'] as const) {
    const used = free[name] - left[name]
    const atMs = nowMs - WINDOW_MS + Math.min(left.resetMs[name], WINDOW_MS)
    if (used > TOLERANCE * limits[name]) use(state, atMs, { ...NOTHING, [name]: Math.floor(used) })
  }
}

function freeOf({ used, held }: RateState, limits: Amounts): Amounts {
  let { requests, tokens } = limits
  for (const [, ofRequests, ofTokens] of used) {
    requests -= ofRequests
    tokens -= ofTokens
  }
  for (const one of Object.values(held)) {
    requests -= one.requests
    tokens -= one.tokens
  }
  return { requests, tokens }
}

/** Returns a second if waiting will not suffice, because nodes hold the rest and may return it. */
function untilFree(state: RateState, limits: Amounts, needs: Amounts, nowMs: number): number {
  let free = freeOf(state, limits)
  if (fits(needs, free)) return 0
  for (const [atMs, requests, tokens] of state.used) {
    free = sum(free, { requests, tokens })
    if (fits(needs, free)) return atMs + WINDOW_MS - nowMs
  }
  return 1000
}

function sum(one: Amounts, other: Amounts): Amounts {
  return { requests: one.requests + other.requests, tokens: one.tokens + other.tokens }
}

function difference(one: Amounts, other: Amounts): Amounts {
  return { requests: one.requests - other.requests, tokens: one.tokens - other.tokens }
}

function least(one: Amounts, other: Amounts): Amounts {
  return { requests: Math.min(one.requests, other.requests), tokens: Math.min(one.tokens, other.tokens) }
}

function fits(one: Amounts, free: Amounts): boolean {
  return one.requests <= free.requests && one.tokens <= free.tokens
}
