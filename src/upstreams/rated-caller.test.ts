/**
 * What a request reserves of a rate, and for how long. The counted input of most jobs is an upper bound: the bytes of the
 * conversation.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { reply } from '../../test/model-server.ts'
import { modelRequest, never, startRouter } from '../../test/support/router-setup.ts'
import type { RoutingAttempt, TargetCaller } from './call-target.ts'
import { ownBook, Rate, type RateRequest } from './rate.ts'
import { RatedCaller } from './rated-caller.ts'
import type { Target } from './routing-table.ts'
import { targetRates } from './target-rates.ts'

const LIMIT = 1_000_000
/** The tokens that the server counts: one for four bytes, and a few for its template. */
const inputOf = (bytes: number) => Math.ceil(bytes / 4) + 8

function start() {
  const clock = new FakeClock()
  const asked: number[] = []
  class Recorded extends Rate {
    override reserve(request: RateRequest, signal: typeof never) {
      asked.push(request.tokens)
      return super.reserve(request, signal)
    }
  }
  const upstreams = new Map([['a', { rate: { tokens_per_minute: LIMIT } }]])
  const models = { one: { targets: [{ upstream: 'a', model: 'm' }] } }
  const rates = targetRates(upstreams, models, (_name, limits) => new Recorded(limits, ownBook(clock), clock))
  const of = rates('a', 'm')
  assert.ok(of)
  let output = 0
  const caller = {
    isSkipped: () => false,
    onRoom: () => {},
    inTurn: (_target: Target, _attempt: RoutingAttempt, call: () => Promise<unknown>) => call(),
    callNow: async (_target: Target, { permit, request }: RoutingAttempt) => {
      permit?.sent()
      const input = inputOf(Buffer.byteLength(request.prompt.messagesJson))
      permit?.answered({ kind: 'answer', text: '', tokens: { input, output } })
      return 'called' as const
    },
  }
  const rated = new RatedCaller(caller as unknown as TargetCaller, clock, () => 1)
  /**
   * Sends a job with a text of this many bytes that uses this many tokens of output. Returns how many tokens it reserved, and
   * how many it used.
   */
  return async (bytes: number, tokens: number, options?: object) => {
    output = tokens
    const content = 'x'.repeat(bytes)
    const messagesJson = JSON.stringify([{ role: 'user', content }])
    const optionsJson = options && JSON.stringify(options)
    const prompt = {
      account: 'acme',
      messagesJson,
      form: { kind: 'text' },
      ...(optionsJson && { optionsJson }),
    }
    const request = modelRequest('one', { inputTokens: bytes + 6, prompt: prompt as never })
    const attempt = { request, signal: never, waiting: new Set() } as unknown as RoutingAttempt
    await rated.call({} as Target, of, attempt)
    return { asked: asked.at(-1) ?? 0, used: inputOf(Buffer.byteLength(messagesJson)) + output }
  }
}

test('a long text is not taken for as many tokens as it has bytes', async () => {
  const call = start()
  for (let n = 0; n < 3; n++) {
    const { asked, used } = await call(40_000, 200, { max_tokens: 200 })
    assert.ok(asked >= used && asked < 1.5 * used, `${asked} for ${used}`)
  }
})

test('a short request asks for what it may use, also after long ones', async () => {
  const call = start()
  for (let n = 0; n < 5; n++) await call(40_000, 500)
  for (let n = 0; n < 5; n++) {
    const { asked, used } = await call(400, 500)
    assert.ok(asked >= 0.9 * used && asked < 3 * used, `${asked} for ${used}`)
  }
})

test('of answers from 200 to 2,000 tokens, few are longer than was asked for', async () => {
  const call = start()
  const calls: { asked: number; used: number }[] = []
  for (let n = 0; n < 80; n++) calls.push(await call(400, 200 + ((n * 7919) % 1801)))
  const short = calls.filter(({ asked, used }) => asked < used).length
  assert.ok(short <= 8, `${short} of ${calls.length}`)
  const sum = (name: 'asked' | 'used') => calls.reduce((total, one) => total + one[name], 0)
  assert.ok(sum('asked') < 2 * sum('used'), `${sum('asked')} for ${sum('used')}`)
})

test('the input is not estimated higher than it was counted', async () => {
  const call = start()
  await call(4000, 500)
  const { asked } = await call(2, 0, { max_tokens: 5 })
  assert.equal(asked, 8 + 5)
})

test('jobs that call one at a time reserve nothing while they wait for each other', async (t) => {
  const { router, clock, a } = await startRouter(t, {
    a: () => reply.stall(),
    isPatient: true,
    rate: { tokens_per_minute: 3500 },
  })
  const { prompt } = modelRequest('one')
  const ask = (jobId: string, tries: number) => {
    const optionsJson = JSON.stringify({ max_tokens: 1000 })
    void router.ask(modelRequest('one', { jobId, tries, prompt: { ...prompt, optionsJson } }), never)
  }
  for (const jobId of ['first', 'second', 'third']) ask(jobId, 2)
  await a.received(1)
  ask('other', 0)
  for (let second = 0; second < 20; second++) {
    clock.advance(1000)
    await setImmediate()
  }
  await a.received(2)
})
