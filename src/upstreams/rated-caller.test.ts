/** Tests calls of targets with rate limits: what they reserve, return and correct, and which limits they learn. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { reply } from '../../test/model-server.ts'
import { ask, modelRequest, never, startRouter } from '../../test/support/router-setup.ts'
import type { ModelSettings } from '../config/settings.ts'
import { Stop } from '../job/stop.ts'
import type { Called, RoutingAttempt, TargetCaller } from './call-target.ts'
import type { ModelRequest, Reply } from './model-server.ts'
import { ownBook, Rate, type RateRequest, type Reservation } from './rate.ts'
import { RatedCaller } from './rated-caller.ts'
import { upstreamError } from './read-completion.ts'
import type { Target } from './routing-table.ts'
import { type RateLimits, RatePermit, targetRates } from './target-rates.ts'

const target = <Limits>(model: string, limits?: Limits) => ({ upstream: 'a', model, ...limits })

/** Creates a caller of a target with these rates. Its calls end with the result of `callNow`. */
function startCaller(
  clock: FakeClock,
  rates: Target['rates'] | undefined,
  callNow: (attempt: RoutingAttempt) => Called,
) {
  assert.ok(rates)
  const caller = {
    isSkipped: () => false,
    inTurn: (_target: Target, _attempt: RoutingAttempt, call: () => Promise<unknown>) => call(),
    callNow: async (_target: Target, attempt: RoutingAttempt) => callNow(attempt),
    onRoom: () => {},
  }
  const rated = new RatedCaller(caller as unknown as TargetCaller, clock, () => 1)
  return (request: ModelRequest, signal = never) => {
    const attempt = { request, signal, waiting: new Set<string>(), permit: null, reply: null }
    return rated.call({} as Target, rates, attempt as unknown as RoutingAttempt)
  }
}

describe('a call with two rates', () => {
  /** After a pause, 1,000 tokens are saved up, so a request of 1,100 tokens is sent at once and the next one a second later. */
  const LIMITS = { requests: 1000, tokens: 6000 }
  const request = modelRequest({ options: { max_tokens: 1090 } })
  const limited = { tokens_per_minute: 6000 }

  /** The target has its own rate and that of its upstream. */
  function start(called: Called = 'called') {
    const clock = new FakeClock()
    const [own, shared] = [new Rate(LIMITS, ownBook(clock), clock), new Rate(LIMITS, ownBook(clock), clock)]
    const rates = targetRates(
      new Map([['a', { rate: limited }]]),
      { one: { targets: [target('m', limited)] } },
      (name) => (name === 'a' ? shared : own),
    )('a', 'm')
    const send = startCaller(clock, rates, () => called)
    const asked = { account: 'acme', weight: 1, tokens: 1100 }
    const isFree = (rate: Rate) => !(rate.reserve(asked, never) instanceof Promise)
    return { clock, own, shared, isFree, call: (signal?: Stop) => send(request, signal) }
  }

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
    const { own, shared, call, isFree } = start('circuit open')
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

/** The counted input of most jobs is an upper bound: the bytes of the conversation. */
describe('what a request reserves', () => {
  /** The server counts one token for four bytes, and a few for its template. */
  const inputOf = ({ prompt }: ModelRequest) => Math.ceil(Buffer.byteLength(prompt.messagesJson) / 4) + 8

  function start() {
    const clock = new FakeClock()
    let asked = 0
    let output = 0
    class Recorded extends Rate {
      override reserve(request: RateRequest, signal: typeof never) {
        asked = request.tokens
        return super.reserve(request, signal)
      }
    }
    const upstreams = new Map([['a', { rate: { tokens_per_minute: 1_000_000 } }]])
    const models = { one: { targets: [target('m')] } }
    const of = targetRates(upstreams, models, (_name, limits) => new Recorded(limits, ownBook(clock), clock))
    const send = startCaller(clock, of('a', 'm'), ({ permit, request }) => {
      permit?.sent()
      permit?.answered({ kind: 'answer', text: '', tokens: { input: inputOf(request), output } })
      return 'called'
    })
    /**
     * Sends a job with a text of this many bytes that uses this many tokens of output. Returns how many tokens it reserved, and
     * how many it used.
     */
    return async (bytes: number, tokens: number, options?: object) => {
      output = tokens
      const content = 'x'.repeat(bytes)
      const request = modelRequest({ inputTokens: bytes + 6, content, ...(options && { options }) })
      await send(request)
      return { asked, used: inputOf(request) + output }
    }
  }

  it('is not as many tokens as a long text has bytes', async () => {
    const call = start()
    for (let n = 0; n < 3; n++) {
      const { asked, used } = await call(40_000, 200, { max_tokens: 200 })
      assert.ok(asked >= used && asked < 1.5 * used, `${asked} for ${used}`)
    }
  })

  it('is what it may use if it is short, also after long ones', async () => {
    const call = start()
    for (let n = 0; n < 5; n++) await call(40_000, 500)
    for (let n = 0; n < 5; n++) {
      const { asked, used } = await call(400, 500)
      assert.ok(asked >= 0.9 * used && asked < 3 * used, `${asked} for ${used}`)
    }
  })

  it('is seldom less than it uses, of answers from 200 to 2,000 tokens', async () => {
    const call = start()
    const calls: { asked: number; used: number }[] = []
    for (let n = 0; n < 80; n++) calls.push(await call(400, 200 + ((n * 7919) % 1801)))
    const short = calls.filter(({ asked, used }) => asked < used).length
    assert.ok(short <= 8, `${short} of ${calls.length}`)
    const sum = (name: 'asked' | 'used') => calls.reduce((total, one) => total + one[name], 0)
    assert.ok(sum('asked') < 2 * sum('used'), `${sum('asked')} for ${sum('used')}`)
  })

  it('is not more than its counted input', async () => {
    const call = start()
    await call(4000, 500)
    assert.equal((await call(2, 0, { max_tokens: 5 })).asked, 8 + 5)
  })

  it('is nothing while jobs that call one at a time wait for each other', async (t) => {
    const rate = { tokens_per_minute: 3500 }
    const setup = await startRouter(t, { a: () => reply.stall(), isPatient: true, rate })
    const { clock, a } = setup
    const options = { max_tokens: 1000 }
    for (const jobId of ['first', 'second', 'third']) void ask(setup, { jobId, tries: 2, options })
    await a.received(1)
    void ask(setup, { jobId: 'other', options })
    for (let second = 0; second < 20; second++) {
      clock.advance(1000)
      await setImmediate()
    }
    await a.received(2)
  })
})

describe('the permit of a call', () => {
  const tokens = { input: 12, output: 30 }
  const error = (fields: object) => upstreamError({ message: 'x', retryable: true, ...fields })
  const busy = error({ status: 429, retryAfterMs: 7000 })
  const answer = { kind: 'answer', text: '' } as const
  const broken = { connection: 'connection', code: 'ECONNRESET', broke: true }
  /**
   * Each case has the corrections of the estimate, whether the rate explains the reply, and for how long the rate is blocked.
   */
  const cases: readonly (readonly [string, Reply, number, [number[], boolean, number]])[] = [
    ['an answer', { ...answer, tokens }, 0, [[42], false, 0]],
    ['an answer without usage', { ...answer, tokens: { input: 0, output: 0 } }, 0, [[], false, 0]],
    ['a refused connection', error({ connection: 'connection', code: 'ECONNREFUSED' }), 0, [[0], false, 0]],
    ['a broken one', error(broken), 0, [[], false, 0]],
    ['a 500', error({ status: 500 }), 0, [[], false, 0]],
    ['a 429', busy, 0, [[], true, 7000]],
    ['a third 429 without Retry-After', error({ status: 429 }), 2, [[], true, 4000]],
    ['a fourth 429', busy, 3, [[], false, 0]],
    ['a used-up quota', error({ status: 429, code: 'insufficient_quota' }), 0, [[], false, 0]],
  ]
  for (const [name, reply, rejections, expected] of cases) {
    it(`of ${name}`, () => {
      const corrected: number[] = []
      let blockedMs = 0
      const rate = { block: (ms: number) => (blockedMs = ms), serverSays: () => {} } as unknown as Rate
      const reservation = { isCounted: true, isTooLarge: false, usedTokens: (n: number) => corrected.push(n) }
      const sizes = { learn: (_request: unknown, used: unknown) => assert.deepEqual(used, tokens) }
      const permit = new RatePermit(
        { rates: [rate], isAlone: true, sizes } as never,
        [reservation as unknown as Reservation],
        modelRequest(),
        rejections,
        new FakeClock(),
      )
      assert.deepEqual([corrected, permit.answered(reply), blockedMs], expected)
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

  it('are those of the model itself, the lowest of its public names, and that of the upstream', () => {
    const one = [target('m', { tokens_per_minute: 500, requests_per_minute: 9 })]
    const other = [target('m', { tokens_per_minute: 300 }), target('n', { tokens_per_minute: 100 })]
    const models = { one: { targets: one }, other: { targets: other } }
    const { made, find } = ratesOf(models, { requests_per_minute: 60 })
    assert.equal(find('a', 'm')?.rates.length, 2)
    assert.deepEqual(made, ['a/m 9 300', 'a 60 Infinity'])
    assert.equal(find('a', 'x')?.rates.length, 1)
    find('a', 'n')
    assert.deepEqual(made.slice(2), ['a/n Infinity 100'])
  })

  it('are what the server reports if only one model uses them, under however many names', () => {
    const isAlone = (...models: string[]) => {
      const named = models.map((model, at) => [`public ${at}`, { targets: [target(model)] }])
      return ratesOf(Object.fromEntries(named), { tokens_per_minute: 6000 }).find('a', 'm')?.isAlone
    }
    assert.deepEqual([isAlone('m'), isAlone('m', 'm'), isAlone('m', 'n')], [true, true, false])
  })

  it('estimate answers above their average, the more they differ', () => {
    const request = modelRequest()
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
