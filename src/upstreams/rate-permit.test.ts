/** Calls of targets with rate limits: what they reserve, return and correct, and which limits they learn. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { modelRequest } from '../../test/support/router-setup.ts'
import type { ModelSettings } from '../config/settings.ts'
import { Stop } from '../job/stop.ts'
import type { Called, RoutingAttempt, TargetCaller } from './call-target.ts'
import type { Reply } from './model-server.ts'
import { ownBook, Rate, type Reservation } from './rate.ts'
import { RatedCaller } from './rated-caller.ts'
import { upstreamError } from './read-completion.ts'
import type { Target } from './routing-table.ts'
import { type RateLimits, RatePermit, targetRates } from './target-rates.ts'

const never = new Stop()
/**
 * Limits per minute. A request of 1,100 tokens is sent at once after a pause, in which 1,000 tokens were saved up, and the next
 * one a second later.
 */
const LIMITS = { requests: 1000, tokens: 6000 }
const OPTIONS = '{"max_tokens":1090}'
const request = modelRequest('one', {
  inputTokens: 10,
  prompt: { ...modelRequest('one').prompt, optionsJson: OPTIONS },
})
const asked = { account: 'acme', weight: 1, tokens: 1100 }

/**
 * A target with its own rate and that of its upstream.
 * @param end called for each call, returns how it ended
 */
function start(end: () => Called = () => 'called') {
  const clock = new FakeClock()
  const [own, shared] = [new Rate(LIMITS, ownBook(clock), clock), new Rate(LIMITS, ownBook(clock), clock)]
  const rates = targetRates(
    new Map([['a', { rate: { tokens_per_minute: 6000 } }]]),
    { one: { targets: [{ upstream: 'a', model: 'm', tokens_per_minute: 6000 }] } },
    (name) => (name === 'a' ? shared : own),
  )('a', 'm')
  assert.ok(rates)
  const caller = {
    isSkipped: () => false,
    inTurn: (_target: Target, _attempt: RoutingAttempt, call: () => Promise<unknown>) => call(),
    callNow: async () => end(),
    onRoom: () => {},
  }
  const rated = new RatedCaller(caller as unknown as TargetCaller, clock, () => 1)
  const call = (signal = never) => {
    const attempt = { request, signal, waiting: new Set<string>(), permit: null, reply: null }
    return rated.call({} as Target, rates, attempt as unknown as RoutingAttempt)
  }
  const isFree = (rate: Rate) => !(rate.reserve(asked, never) instanceof Promise)
  return { clock, own, shared, call, isFree }
}

describe('a call with two rates', () => {
  it('that is stopped while it waits for the second one returns its part of the first', async () => {
    const { own, shared, call, isFree } = start()
    assert.ok(isFree(shared))
    const stop = new Stop()
    const called = call(stop)
    await setImmediate()
    assert.equal(shared.waiting, 1)
    stop.now('release')
    assert.equal(await called, 'stopped')
    assert.ok(isFree(own))
  })

  it('returns both if it is not sent', async () => {
    const { own, shared, call, isFree } = start(() => 'circuit open')
    assert.equal(await call(), 'circuit open')
    assert.deepEqual([own, shared].map(isFree), [true, true])
  })

  it('does not wait within the time limit of its run', async () => {
    const { shared, call, isFree, clock } = start()
    assert.ok(isFree(shared))
    const stop = new Stop()
    stop.startTimeout(clock, 5000)
    const called = call(stop)
    await setImmediate()
    clock.advance(6000)
    assert.equal(await called, 'called')
    clock.advance(4999)
    assert.equal(stop.reason, null)
    clock.advance(1)
    assert.equal(stop.reason, 'timeout')
  })
})

describe('the permit of a call', () => {
  const tokens = { input: 12, output: 30 }
  const error = (fields: object) => upstreamError({ message: 'x', retryable: true, ...fields })
  const busy = error({ status: 429, retryAfterMs: 7000 })
  /** By reply: the corrections of the estimate, whether the rate explains the reply, and for how long the rate is blocked. */
  const cases: readonly (readonly [string, Reply, number, [number[], boolean, number]])[] = [
    ['an answer', { kind: 'answer', text: '', tokens }, 0, [[42], false, 0]],
    [
      'an answer without usage',
      { kind: 'answer', text: '', tokens: { input: 0, output: 0 } },
      0,
      [[], false, 0],
    ],
    ['a refused connection', error({ connection: 'connection', code: 'ECONNREFUSED' }), 0, [[0], false, 0]],
    ['a broken one', error({ connection: 'connection', code: 'ECONNRESET', broke: true }), 0, [[], false, 0]],
    ['a 500', error({ status: 500 }), 0, [[], false, 0]],
    ['a 429', busy, 0, [[], true, 7000]],
    ['a third 429 without Retry-After', error({ status: 429 }), 2, [[], true, 4000]],
    ['a fourth 429', busy, 3, [[], false, 0]],
    ['a used-up quota', error({ status: 429, code: 'insufficient_quota' }), 0, [[], false, 0]],
  ]
  for (const [name, reply, rejections, expected] of cases) {
    it(`of ${name}`, () => {
      const clock = new FakeClock()
      const corrected: number[] = []
      let blockedMs = 0
      const rate = { block: (ms: number) => (blockedMs = ms), serverSays: () => {} } as unknown as Rate
      const reservation = { isCounted: true, isTooLarge: false, usedTokens: (n: number) => corrected.push(n) }
      const sizes = { learn: (_request: unknown, used: unknown) => assert.deepEqual(used, tokens) }
      const permit = new RatePermit(
        { rates: [rate], isAlone: true, sizes } as never,
        [reservation as unknown as Reservation],
        request,
        rejections,
        clock,
      )
      const isExplained = permit.answered(reply)
      assert.deepEqual([corrected, isExplained, blockedMs], expected)
    })
  }
})

describe('the rates of targets', () => {
  const ratesOf = (models: Record<string, ModelSettings>, upstream: RateLimits = {}) => {
    const made: string[] = []
    const find = targetRates(new Map([['a', { rate: upstream }]]), models, (name, { requests, tokens }) => {
      made.push(`${name} ${requests} ${tokens}`)
      return { name } as unknown as Rate
    })
    return { made, find }
  }
  const target = <Limits>(model: string, limits?: Limits) => ({ upstream: 'a', model, ...limits })

  it('are those of the model itself, the lowest of its public names, and that of the upstream', () => {
    const { made, find } = ratesOf(
      {
        one: { targets: [target('m', { tokens_per_minute: 500, requests_per_minute: 9 })] },
        other: {
          targets: [target('m', { tokens_per_minute: 300 }), target('n', { tokens_per_minute: 100 })],
        },
      },
      { requests_per_minute: 60 },
    )
    assert.equal(find('a', 'm')?.rates.length, 2)
    assert.deepEqual(made, ['a/m 9 300', 'a 60 Infinity'])
    assert.equal(find('a', 'x')?.rates.length, 1)
    find('a', 'n')
    assert.deepEqual(made.slice(2), ['a/n Infinity 100'])
  })

  it('are what the server reports if only one model uses them, under however many names', () => {
    const limited = { tokens_per_minute: 6000 }
    const isAlone = (...models: string[]) => {
      const named = models.map((model, at) => [`public ${at}`, { targets: [target(model)] }])
      return ratesOf(Object.fromEntries(named), limited).find('a', 'm')?.isAlone
    }
    assert.deepEqual([isAlone('m'), isAlone('m', 'm'), isAlone('m', 'n')], [true, true, false])
  })

  it('estimate answers above their average, the more they differ', () => {
    const learned = (...outputs: number[]) => {
      const found = ratesOf({ one: { targets: [target('m')] } }, { tokens_per_minute: 1 }).find('a', 'm')
      assert.ok(found)
      const input = found.sizes.inputOf(request)
      for (let n = 0; n < 40; n++) for (const output of outputs) found.sizes.learn(request, { input, output })
      return found.sizes.more
    }
    assert.equal(learned(200), 200)
    assert.ok(learned(100, 300) > 300, String(learned(100, 300)))
  })
})
