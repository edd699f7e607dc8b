/** Tests how much a rate grants, when, and which node gets it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Amounts, type Ask, exchange, HOLD_MS, NOTHING, newRateState, WINDOW_MS } from './rate-window.ts'

const LIMITS = { requests: 60, tokens: 6000 }
const START_MS = 1_000_000

/** All times are in milliseconds since the books were opened. */
function open(limits: Amounts = LIMITS) {
  const state = newRateState(START_MS)
  const tell = (over: Partial<Ask>, ms = 0) => {
    const nothing = { used: [], held: NOTHING, needs: NOTHING, left: null, blockMs: 0 }
    const ask = { node: 'a', ...nothing, wants: over.needs ?? NOTHING, ...over }
    return exchange(state, limits, ask, START_MS + ms)
  }
  /** Grants one request with this many tokens and sends it at once. Returns 0, or how long to wait in milliseconds. */
  const send = (tokens: number, ms = 0, node = 'a'): number => {
    const needs = { requests: 1, tokens }
    const { requests, retryMs } = tell({ node, needs }, ms)
    if (requests === 0) return retryMs
    tell({ node, used: [{ agoMs: 0, ...needs }] }, ms)
    return 0
  }
  /** Sends requests of 100 tokens until none fits, and returns how many tokens were sent. */
  const sendAll = (ms = 0): number => {
    let sent = 0
    while (send(100, ms) === 0) sent += 100
    return sent
  }
  return { state, tell, send, sendAll }
}

describe('the books of a rate', () => {
  it('let a sixth of a minute be sent at once, and then as much as the time allows', () => {
    const { sendAll } = open()
    assert.deepEqual([sendAll(), sendAll(), sendAll(3000)], [1100, 0, 300])
  })

  it('let no more than the limits be sent in a minute, of requests as of tokens', () => {
    const { send } = open({ requests: 5, tokens: 6000 })
    const sentAt: number[] = []
    for (let ms = 0; ms < 200_000; ms += 250) if (send(10, ms) === 0) sentAt.push(ms)
    for (const ms of sentAt) assert.ok(sentAt.filter((one) => one > ms - 60_000 && one <= ms).length <= 5)
    assert.ok(sentAt.length >= 16, String(sentAt))
  })

  it('say when to ask again', () => {
    const { send } = open()
    assert.equal(send(5000), 0)
    assert.equal(send(2000, 45_000), WINDOW_MS - 45_000)
    assert.equal(send(2000, WINDOW_MS), 0)
  })

  it('count what was used more or less than estimated', () => {
    const { send, tell } = open()
    assert.equal(send(5000), 0)
    tell({ used: [{ agoMs: 1000, requests: 0, tokens: -4000 }] }, 1000)
    assert.equal(send(4900, 10_000), 0)
    tell({ used: [{ agoMs: 1000, requests: 0, tokens: 1000 }] }, 11_000)
    assert.ok(send(100, 60_000) > 0)
  })

  it('let the node whose job did not fit go first, and others have what it does not need', () => {
    const { send } = open()
    assert.equal(send(4000), 0)
    assert.ok(send(3000, 50_000, 'large') > 0)
    assert.ok(send(100, 50_000, 'small') > 0)
    assert.ok(send(3000, 52_000, 'large') > 0)
    assert.equal(send(3000, WINDOW_MS, 'large'), 0)
    assert.equal(send(100, WINDOW_MS + 25_000, 'small'), 0)
  })

  it('forget the node that goes first if it does not ask again', () => {
    const { send } = open()
    assert.equal(send(4000), 0)
    assert.ok(send(3000, 50_000, 'large') > 0)
    assert.equal(send(100, 54_000, 'small'), 0)
  })

  it('count what a crashed node held as sent', () => {
    const { send, tell } = open()
    tell({ node: 'dead', needs: { requests: 1, tokens: 6000 } })
    for (const ms of [HOLD_MS, WINDOW_MS]) assert.ok(send(100, ms) > 0)
    assert.equal(send(100, HOLD_MS + WINDOW_MS), 0)
  })

  it('count what a node held once, however late it reports it', () => {
    const { state, tell } = open()
    const needs = { requests: 1, tokens: 3000 }
    tell({ needs })
    tell({ used: [{ agoMs: 30_000, ...needs }] }, 30_000)
    assert.deepEqual(
      state.used.map(([, , tokens]) => tokens),
      [3000],
    )
  })

  it('believe a server that says that less is left, until its minute is over', () => {
    const resetMs = { requests: 60_000, tokens: 20_000 }
    const { state, send, tell } = open({ ...LIMITS, requests: Number.POSITIVE_INFINITY })
    tell({ left: { requests: Number.POSITIVE_INFINITY, tokens: 1000, resetMs } })
    assert.deepEqual(state.used, [[START_MS - 40_500, 0, 5000]])
    assert.ok(send(1500) > 0)
    assert.equal(send(900), 0)
    assert.equal(send(1500, 20_500), 0)
  })

  it('do not count the time between an answer and now as used by others', () => {
    const { state, tell } = open()
    tell({ left: { requests: 59, tokens: 5800, resetMs: { requests: 60_000, tokens: 60_000 } } })
    assert.deepEqual(state.used, [])
  })

  it('wait as long as the server asks for', () => {
    const { send, tell } = open()
    tell({ blockMs: 30_000 })
    assert.deepEqual([send(100, 10_000), send(100, 30_000)], [20_000, 0])
  })

  it('do not change if nothing is granted or reported', () => {
    const { send, tell } = open()
    assert.equal(send(6000), 0)
    const needs = { requests: 1, tokens: 100 }
    assert.deepEqual([tell({ needs }, 1000).isSame, tell({ needs }, 1500).isSame], [false, true])
  })

  it('change if a node holds more than before, and forget a node that holds nothing', () => {
    const { state, tell } = open()
    const holds = (requests: number, tokens: number) => tell({ held: { requests, tokens } }).isSame
    assert.deepEqual(
      [holds(1, 100), holds(1, 100), holds(1, 200), holds(1, 100)],
      [false, true, false, false],
    )
    assert.equal(holds(0, 0), false)
    assert.deepEqual(state.held, {})
  })

  it('survive a node whose clock is wrong by an hour', () => {
    const { send } = open()
    assert.equal(send(6000, 3_600_000, 'ahead'), 0)
    assert.equal(send(100, WINDOW_MS), WINDOW_MS)
    assert.equal(send(100, 2 * WINDOW_MS), 0)
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
        const asked = {
          ...one,
          used: used.map(swapped),
          held: swapped(held),
          needs: swapped(needs),
          wants: swapped(wants),
          left: left && { ...swapped(left), resetMs: swapped(left.resetMs) },
        }
        const alike = exchange(other, swapped(LIMITS), asked, nowMs)
        assert.deepEqual(swapped(alike), granted)
      }
    }),
  )
})
