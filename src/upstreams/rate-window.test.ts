/** The state of a rate: how much it grants, when, and to which node. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  type Amounts,
  type Ask,
  exchange,
  HOLD_MS,
  NOTHING,
  newRateState,
  type RateState,
  WINDOW_MS,
} from './rate-window.ts'

const LIMITS = { requests: 60, tokens: 6000 }
const START_MS = 1_000_000

function ask(over: Partial<Ask>): Ask {
  return {
    node: 'a',
    used: [],
    held: NOTHING,
    needs: NOTHING,
    wants: over.needs ?? NOTHING,
    left: null,
    blockMs: 0,
    ...over,
  }
}

/** Grants one request with this many tokens and sends it at once. Returns 0, or how long to wait in milliseconds. */
function send(state: RateState, tokens: number, nowMs: number, node = 'a'): number {
  const needs = { requests: 1, tokens }
  const { requests, retryMs } = exchange(state, LIMITS, ask({ node, needs }), nowMs)
  if (requests === 0) return retryMs
  exchange(state, LIMITS, ask({ node, used: [{ agoMs: 0, ...needs }] }), nowMs)
  return 0
}

/** Sends requests until none fits, and returns how many tokens were sent. */
function sendAll(state: RateState, tokens: number, nowMs: number): number {
  let sent = 0
  while (send(state, tokens, nowMs) === 0) sent += tokens
  return sent
}

describe('the books of a rate', () => {
  it('let a sixth of a minute be sent at once, and then as much as the time allows', () => {
    const state = newRateState(START_MS)
    assert.equal(sendAll(state, 100, START_MS), 1100)
    assert.equal(sendAll(state, 100, START_MS), 0)
    assert.equal(sendAll(state, 100, START_MS + 3000), 300)
  })

  it('let no more than the limits be sent in a minute, of requests as of tokens', () => {
    const limits = { requests: 5, tokens: 6000 }
    const state = newRateState(START_MS)
    const sentAt: number[] = []
    for (let ms = 0; ms < 200_000; ms += 250) {
      const needs = { requests: 1, tokens: 10 }
      if (exchange(state, limits, ask({ needs }), START_MS + ms).requests === 0) continue
      exchange(state, limits, ask({ used: [{ agoMs: 0, ...needs }] }), START_MS + ms)
      sentAt.push(ms)
    }
    for (const ms of sentAt) assert.ok(sentAt.filter((one) => one > ms - 60_000 && one <= ms).length <= 5)
    assert.ok(sentAt.length >= 16, String(sentAt))
  })

  it('say when to ask again', () => {
    const state = newRateState(START_MS)
    assert.equal(send(state, 5000, START_MS), 0)
    const retryMs = send(state, 2000, START_MS + 45_000)
    assert.equal(retryMs, WINDOW_MS - 45_000)
    assert.equal(send(state, 2000, START_MS + 45_000 + retryMs), 0)
  })

  it('count what was used more or less than estimated', () => {
    const state = newRateState(START_MS)
    assert.equal(send(state, 5000, START_MS), 0)
    exchange(state, LIMITS, ask({ used: [{ agoMs: 1000, requests: 0, tokens: -4000 }] }), START_MS + 1000)
    assert.equal(send(state, 4900, START_MS + 10_000), 0)
    exchange(state, LIMITS, ask({ used: [{ agoMs: 1000, requests: 0, tokens: 1000 }] }), START_MS + 11_000)
    assert.ok(send(state, 100, START_MS + 60_000) > 0)
  })

  it('let the node whose job did not fit go first, and others have what it does not need', () => {
    const state = newRateState(START_MS)
    assert.equal(send(state, 4000, START_MS), 0)
    assert.ok(send(state, 3000, START_MS + 50_000, 'large') > 0)
    assert.ok(send(state, 100, START_MS + 50_000, 'small') > 0)
    assert.ok(send(state, 3000, START_MS + 52_000, 'large') > 0)
    assert.equal(send(state, 3000, START_MS + WINDOW_MS, 'large'), 0)
    assert.equal(send(state, 100, START_MS + WINDOW_MS + 25_000, 'small'), 0)
  })

  it('forget the node that goes first if it does not ask again', () => {
    const state = newRateState(START_MS)
    assert.equal(send(state, 4000, START_MS), 0)
    assert.ok(send(state, 3000, START_MS + 50_000, 'large') > 0)
    assert.equal(send(state, 100, START_MS + 54_000, 'small'), 0)
  })

  it('count what a crashed node held as sent', () => {
    const state = newRateState(START_MS)
    exchange(state, LIMITS, ask({ node: 'dead', needs: { requests: 1, tokens: 6000 } }), START_MS)
    assert.ok(send(state, 100, START_MS + HOLD_MS) > 0)
    assert.ok(send(state, 100, START_MS + WINDOW_MS) > 0)
    assert.equal(send(state, 100, START_MS + HOLD_MS + WINDOW_MS), 0)
  })

  it('count what a node held once, however late it reports it', () => {
    const state = newRateState(START_MS)
    const needs = { requests: 1, tokens: 3000 }
    exchange(state, LIMITS, ask({ needs }), START_MS)
    const used = [{ agoMs: 30_000, ...needs }]
    exchange(state, LIMITS, ask({ used }), START_MS + 30_000)
    assert.deepEqual(
      state.used.map(([, , tokens]) => tokens),
      [3000],
    )
  })

  it('believe a server that says that less is left, until its minute is over', () => {
    const resetMs = { requests: 60_000, tokens: 20_000 }
    const left = { requests: Number.POSITIVE_INFINITY, tokens: 1000, resetMs }
    const state = newRateState(START_MS)
    exchange(state, { ...LIMITS, requests: Number.POSITIVE_INFINITY }, ask({ left }), START_MS)
    assert.deepEqual(state.used, [[START_MS - 40_500, 0, 5000]])
    assert.ok(send(state, 1500, START_MS) > 0)
    assert.equal(send(state, 900, START_MS), 0)
    assert.equal(send(state, 1500, START_MS + 20_500), 0)
  })

  it('do not count the time between an answer and now as used by others', () => {
    const left = { requests: 59, tokens: 5800, resetMs: { requests: 60_000, tokens: 60_000 } }
    const state = newRateState(START_MS)
    exchange(state, LIMITS, ask({ left }), START_MS)
    assert.deepEqual(state.used, [])
  })

  it('wait as long as the server asks for', () => {
    const state = newRateState(START_MS)
    exchange(state, LIMITS, ask({ blockMs: 30_000 }), START_MS)
    assert.equal(send(state, 100, START_MS + 10_000), 20_000)
    assert.equal(send(state, 100, START_MS + 30_000), 0)
  })

  it('do not change if nothing is granted or reported', () => {
    const state = newRateState(START_MS)
    assert.equal(send(state, 6000, START_MS), 0)
    const needs = { requests: 1, tokens: 100 }
    assert.equal(exchange(state, LIMITS, ask({ needs }), START_MS + 1000).isSame, false)
    assert.equal(exchange(state, LIMITS, ask({ needs }), START_MS + 1500).isSame, true)
  })

  it('change if a node holds more than before, and forget a node that holds nothing', () => {
    const state = newRateState(START_MS)
    const holds = (requests: number, tokens: number) =>
      exchange(state, LIMITS, ask({ held: { requests, tokens } }), START_MS).isSame
    assert.equal(holds(1, 100), false)
    assert.equal(holds(1, 100), true)
    assert.equal(holds(1, 200), false)
    assert.equal(holds(1, 100), false)
    assert.equal(holds(0, 0), false)
    assert.deepEqual(state.held, {})
  })

  it('survive a node whose clock is wrong by an hour', () => {
    const state = newRateState(START_MS)
    assert.equal(send(state, 6000, START_MS + 3_600_000, 'ahead'), 0)
    assert.equal(send(state, 100, START_MS + WINDOW_MS), WINDOW_MS)
    assert.equal(send(state, 100, START_MS + 2 * WINDOW_MS), 0)
  })
})

const amounts = fc.record({ requests: fc.nat(20), tokens: fc.nat(2000) })
const asks = fc.record({
  pauseMs: fc.nat(20_000),
  node: fc.constantFrom('a', 'b'),
  used: fc.array(fc.record({ agoMs: fc.nat(3000), requests: fc.nat(20), tokens: fc.nat(2000) }), {
    maxLength: 2,
  }),
  held: amounts,
  needs: amounts,
  more: amounts,
  left: fc.option(
    fc.record({
      requests: fc.constantFrom(0, 10, 59, Number.POSITIVE_INFINITY),
      tokens: fc.constantFrom(0, 1000, 5900, Number.POSITIVE_INFINITY),
      resetMs: fc.record({ requests: fc.nat(70_000), tokens: fc.nat(70_000) }),
    }),
  ),
  blockMs: fc.constantFrom(0, 0, 0, 5000),
})

/** Swaps requests and tokens. */
const swapped = <T extends Amounts>(one: T): T => ({ ...one, requests: one.tokens, tokens: one.requests })

it('requests and tokens are limited alike', () => {
  fc.assert(
    fc.property(fc.array(asks, { maxLength: 20 }), (steps) => {
      const [state, other] = [newRateState(START_MS), newRateState(START_MS)]
      let nowMs = START_MS
      for (const { pauseMs, more, ...one } of steps) {
        nowMs += pauseMs
        const { used, held, needs, left } = one
        const wants = { requests: needs.requests + more.requests, tokens: needs.tokens + more.tokens }
        const granted = exchange(state, LIMITS, { ...one, wants }, nowMs)
        const alike = exchange(
          other,
          swapped(LIMITS),
          {
            ...one,
            used: used.map(swapped),
            held: swapped(held),
            needs: swapped(needs),
            wants: swapped(wants),
            left: left && { ...swapped(left), resetMs: swapped(left.resetMs) },
          },
          nowMs,
        )
        assert.deepEqual(swapped(alike), granted)
      }
    }),
  )
})
