/** Tests routing: targets in order, rounds with pauses, concurrency limits and the stop signal. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { reply, type Script } from '../../test/model-server.ts'
import {
  answerAll,
  ask,
  CALL_TIMEOUT_MS,
  callsOf,
  failing,
  isPause,
  passPauses,
  startRouter,
} from '../../test/support/router-setup.ts'
import type { ModelSettings } from '../config/settings.ts'
import { Stop } from '../job/stop.ts'
import { MAX_TRIES } from './call-target.ts'
import { FIRST_CHECK_MS } from './circuit-breaker.ts'
import type { AnswerForm, RoutedReply } from './model-server.ts'
import { BACKOFF_FACTOR, FIRST_BACKOFF_MS, JITTER, MAX_RETRY_AFTER_MS } from './retry-after.ts'
import { ModelRouter, ROUNDS } from './router.ts'

const schemaJson = '{"type":"object","properties":{"a":{"type":"string","pattern":"b"}}}'
const form: AnswerForm = { kind: 'schema', schemaJson, strict: false, isObject: true }

describe('the record of a call', () => {
  it('contains the request format of each server that was called', async (t) => {
    const settings = { roles: 'developer_as_system', structured_output: 'none' } as const
    const setup = await startRouter(t, { a: failing, settings: { a: settings } })
    const [first, second] = (await ask(setup, { model: 'two', form })).calls
    assert.ok(first && second)
    const { instruction, at_ms: _, ...rest } = first
    assert.match(instruction ?? '', /JSON Schema/)
    assert.deepEqual(rest, {
      target: 'a/m',
      kind: 'trouble',
      status: 503,
      ms: 0,
      roles: 'developer_as_system',
      json_mode: 'instruction',
    })
    const { roles, json_mode, instruction: none } = second
    assert.deepEqual([roles, json_mode, none], ['native', 'json_schema', undefined])
  })

  it('has no JSON mode if text was requested', async (t) => {
    const [call] = (await ask(await startRouter(t))).calls
    assert.deepEqual(call && Object.keys(call), ['target', 'kind', 'status', 'at_ms', 'ms', 'roles'])
  })
})

describe('a schema that the server rejects', () => {
  const formatsOf = (routed: RoutedReply) => callsOf(routed, 'status', 'json_mode', 'other_format')

  it('is sent as an instruction at once; neither the target nor the number of rounds is charged', async (t) => {
    const patternError = {
      error: { code: 500, message: "Pattern must start with '^'", type: 'server_error' },
    }
    const rejectsSchemas: Script = ({ body }) =>
      body.response_format?.type === 'json_schema' ? reply.status(500, { body: patternError }) : undefined
    const setup = await startRouter(t, { a: rejectsSchemas, settings: { a: { roles: 'native' } } })
    for (let n = 0; n < 8; n++) {
      const routed = await ask(setup, { form })
      assert.equal(routed.reply.kind, 'answer')
      assert.deepEqual(formatsOf(routed), ['500 json_schema -', '200 json_object json_mode'])
    }
    assert.equal(setup.events.length, 16)
    assert.equal(setup.router.state()[0]?.targets[0]?.consecutiveFailures, 0)
    const sent = setup.a.requests[1]?.body
    assert.deepEqual(sent?.response_format, { type: 'json_object' })
    assert.ok(String(sent?.messages[0]?.content).includes(schemaJson))
  })

  it('is sent without any format if the server rejects json_object, too', async (t) => {
    const error = (message: string) => reply.status(400, { body: { error: message } })
    const script: Script = ({ body: { response_format } }) => {
      if (response_format?.type === 'json_schema') return error("Pattern must start with '^'")
      return response_format && error("'response_format.type' must be 'json_schema' or 'text'")
    }
    const routed = await ask(await startRouter(t, { a: script }), { form })
    assert.deepEqual(formatsOf(routed), [
      '400 json_schema -',
      '400 json_object json_mode',
      '200 instruction json_mode',
    ])
  })

  it('is not what any other 500 is about', async (t) => {
    const setup = await startRouter(t, { a: () => reply.status(500) })
    await ask(setup, { form, pauses: ROUNDS - 1 })
    assert.equal(setup.a.requests.length, ROUNDS)
  })
})

describe('a failed call', () => {
  it('is reported for the log with its code', async (t) => {
    const body = { error: { message: 'Pay.', code: 'insufficient_quota' } }
    const setup = await startRouter(t, { a: () => reply.status(429, { body }) })
    await setup.b.close()
    await ask(setup, { model: 'two', pauses: ROUNDS - 1 })
    assert.deepEqual(
      setup.failed
        .slice(0, 2)
        .map(({ upstream, status, code, connection }) => [upstream, status, code, connection]),
      [
        ['a', 429, 'insufficient_quota', null],
        ['b', null, 'ECONNREFUSED', 'connection'],
      ],
    )
  })
})

describe('targets', () => {
  it('are tried in order until one answers', async (t) => {
    const setup = await startRouter(t)
    const routed = await ask(setup, { model: 'two' })
    assert.deepEqual(routed.reply, { kind: 'answer', text: 'echo: Hi', tokens: { input: 2, output: 8 } })
    assert.equal(routed.target, 'a/m')
    assert.equal(setup.a.requests[0]?.body.model, 'm')
    assert.equal(setup.b.requests.length, 0)
  })

  for (const [name, script, status] of [
    ...[401, 404, 408, 409, 429, 500, 503].map(
      (code) => [`${code}`, () => reply.status(code), `${code}`] as const,
    ),
    ['a reset', () => reply.reset(), '-'],
    ['a reset in the middle of an answer', () => reply.resetMidBody(), '200'],
  ] as const) {
    it(`${name} tries the next target at once, with patience and without`, async (t) => {
      for (const isPatient of [false, true]) {
        const setup = await startRouter(t, { a: script, isPatient })
        const routed = await ask(setup, { model: 'two' })
        assert.deepEqual([routed.reply.kind, routed.target, routed.wait], ['answer', 'b/n', undefined])
        assert.equal(setup.b.requests[0]?.body.model, 'n')
        assert.deepEqual(callsOf(routed, 'target', 'kind', 'status'), [
          `a/m trouble ${status}`,
          'b/n answer 200',
        ])
      }
    })
  }

  it('after a call that stalls, the next target is tried at the timeout', async (t) => {
    const setup = await startRouter(t, { a: () => reply.stall() })
    const asked = ask(setup, { model: 'two' })
    await setup.a.received(1)
    setup.clock.advance(CALL_TIMEOUT_MS)
    assert.equal((await asked).target, 'b/n')
  })

  for (const [name, script, kind] of [
    ['400', () => reply.status(400), 'error'],
    ['a 200 that is not a chat completion', () => reply.notACompletion(), 'error'],
    ['a refusal', () => reply.refusal(), 'refused'],
  ] as const) {
    it(`${name} ends the request, with patience and without`, async (t) => {
      for (const isPatient of [false, true]) {
        const setup = await startRouter(t, { a: script, isPatient })
        const { reply: last, target, calls, wait } = await ask(setup, { model: 'two' })
        assert.deepEqual([last.kind, target, calls.length, wait], [kind, 'a/m', 1, undefined])
        assert.equal(setup.b.requests.length, 0)
      }
    })
  }

  it('a model that is no longer configured is an error, not a bug', async (t) => {
    const { reply: last, target, calls } = await ask(await startRouter(t), { model: 'gone' })
    assert.equal(last.kind === 'error' && last.retryable, false)
    assert.deepEqual([target, calls], [null, []])
  })

  it('sums the tokens of all calls, and emits an event for each', async (t) => {
    const usage = { prompt_tokens: 7, completion_tokens: 1 }
    const script = () => reply.notACompletion({ choices: [{ message: {} }], usage })
    const setup = await startRouter(t, { a: script })
    assert.deepEqual((await ask(setup)).tokens, { input: 7, output: 1 })
    assert.deepEqual(setup.events, [
      { upstream: 'a', model: 'm', kind: 'error', status: 200, aborted: false, isTruncated: false, ms: 0 },
    ])
  })
})

describe('rounds', () => {
  it('are at most three, with growing pauses between them; then the last error is the reply', async (t) => {
    const setup = await startRouter(t, { a: failing, b: () => reply.status(500) })
    const { clock, a, b } = setup
    const asked = ask(setup, { model: 'two' })
    assert.deepEqual(await passPauses(clock, ROUNDS - 1), [
      FIRST_BACKOFF_MS,
      FIRST_BACKOFF_MS * BACKOFF_FACTOR,
    ])
    const routed = await asked
    assert.equal(routed.reply.kind === 'error' && routed.reply.status, 500)
    assert.equal(routed.target, 'b/n')
    assert.deepEqual(callsOf(routed, 'target'), ['a/m', 'b/n', 'a/m', 'b/n', 'a/m', 'b/n'])
    assert.deepEqual([a.requests.length, b.requests.length], [ROUNDS, ROUNDS])
    assert.deepEqual(clock.pending(), [FIRST_CHECK_MS, FIRST_CHECK_MS], 'only the checks of both targets')
  })

  it('a later round may succeed', async (t) => {
    const script: Script = (_request, index) => (index < 2 ? reply.status(503) : undefined)
    assert.equal((await ask(await startRouter(t, { a: script }), { pauses: 2 })).reply.kind, 'answer')
  })

  it('pause with jitter', async (t) => {
    for (const [random, factor] of [
      [0, 1 - JITTER],
      [0.999_999_999, 1 + JITTER],
    ] as const) {
      const setup = await startRouter(t, { a: failing, random: () => random })
      const asked = ask(setup)
      const [first = 0] = await passPauses(setup.clock, ROUNDS - 1)
      assert.ok(Math.abs(first - FIRST_BACKOFF_MS * factor) < 0.01, String(first))
      await asked
    }
  })

  it('respect Retry-After: never sooner, a little later because of jitter, and bounded', async (t) => {
    for (const [seconds, least] of [
      ['7', 7000],
      ['86400', MAX_RETRY_AFTER_MS],
    ] as const) {
      const busy = reply.status(429, { headers: { 'retry-after': seconds } })
      const setup = await startRouter(t, { a: (_request, index) => (index === 0 ? busy : undefined) })
      const { clock, a } = setup
      const asked = ask(setup)
      // The next check of the target is due after exactly `least` milliseconds.
      const wait = await clock.timerSet((ms) => isPause(ms) && ms !== least)
      assert.ok(wait >= least && wait <= least * (1 + JITTER), String(wait))
      clock.advance(wait - 1)
      assert.equal(a.completions().length, 1)
      clock.advance(1)
      assert.equal((await asked).reply.kind, 'answer')
    }
  })

  for (const [soon, late, target] of [
    ['a', 'b', 'a/m'],
    ['b', 'a', 'b/n'],
  ] as const) {
    it(`begin again when one target is available, ${target}, and skip the one that is not yet`, async (t) => {
      const busy = (seconds: string) => reply.status(429, { headers: { 'retry-after': seconds } })
      const setup = await startRouter(t, {
        [soon]: (_request: unknown, index: number) => (index === 0 ? busy('4') : undefined),
        [late]: () => busy('50'),
      })
      const asked = ask(setup, { model: 'two' })
      const pauseMs = 4_000 * (1 + JITTER / 2)
      await setup.clock.timerSet((ms) => ms === pauseMs)
      setup.clock.advance(pauseMs)
      assert.equal((await asked).target, target)
      assert.equal(setup[late].requests.length, 1)
    })
  }
})

describe('gpt-auto', () => {
  const models: Record<string, ModelSettings> = {
    small: { targets: [{ upstream: 'a', model: 'small' }] },
    middle: { targets: [{ upstream: 'a', model: 'middle' }] },
    large: { targets: [{ upstream: 'b', model: 'large' }] },
    'gpt-auto': {
      auto: [
        { model: 'small', up_to_tokens: 100 },
        { model: 'middle', up_to_tokens: 1000 },
        { model: 'large' },
      ],
    },
  }
  const cases: [number, string[], string | null][] = [
    [100, ['small', 'middle', 'large'], 'a/small'],
    [101, ['small', 'middle', 'large'], 'a/middle'],
    [1001, ['small', 'middle', 'large'], 'b/large'],
    [50, ['middle', 'large'], 'a/middle'],
    [5000, ['small', 'middle'], 'a/middle'],
    [5000, ['small'], 'a/small'],
    [50, [], null],
  ]
  for (const [inputTokens, allowed, expected] of cases) {
    it(`${inputTokens} tokens, allowed ${allowed.join(', ') || 'nothing'}: ${expected}`, async (t) => {
      const tier = { name: 'some', models: new Set(allowed), weight: 1 }
      const setup = await startRouter(t, { models, tiers: [tier] })
      const routed = await ask(setup, { model: 'gpt-auto', inputTokens, tier: 'some' })
      assert.equal(routed.target, expected)
      assert.equal(routed.reply.kind, expected === null ? 'error' : 'answer')
    })
  }

  it('tries the next candidate after a retryable error, but after no other', async (t) => {
    const retryable = await ask(await startRouter(t, { models, a: failing }), { model: 'gpt-auto' })
    assert.deepEqual(callsOf(retryable, 'target'), ['a/small', 'a/middle', 'b/large'])
    const setup = await startRouter(t, { models, a: () => reply.status(400) })
    assert.equal((await ask(setup, { model: 'gpt-auto' })).calls.length, 1)
  })

  it('a candidate without targets is rejected at startup', () => {
    const make = (wrong: Record<string, ModelSettings>) =>
      new ModelRouter({
        upstreams: new Map(),
        models: wrong,
        tiers: [],
        clock: new FakeClock(),
        random: () => 0,
      })
    assert.throws(() => make({ auto: { auto: [{ model: 'nowhere' }] } }), /nowhere/)
    assert.throws(() => make({ m: { targets: [{ upstream: 'none', model: 'm' }] } }), /no upstream none/)
  })
})

describe('the concurrency limit', () => {
  it('queues requests in order of arrival, and the state shows them', async (t) => {
    const setup = await startRouter(t, { a: () => reply.stall(), maxConcurrency: 2 })
    const { router, a } = setup
    const asked = ['0', '1', '2', '3'].map((content) => ask(setup, { content }))
    await a.received(2)
    const { running, waiting, maxConcurrency } = router.state()[0] ?? {}
    assert.deepEqual({ running, waiting, maxConcurrency }, { running: 2, waiting: 2, maxConcurrency: 2 })
    await answerAll(a, asked)
    assert.deepEqual(a.requests.map(({ body }) => body.messages[0]?.content).slice(2), ['2', '3'])
    assert.equal(a.mostRunning(), 2)
    assert.equal(router.state()[0]?.running, 0)
  })

  it('gives the next free slot to the waiting account that holds fewest, by the weight of its tier', async (t) => {
    const models = new Set(['one'])
    const tiers = [
      { name: 'light', models, weight: 1 },
      { name: 'heavy', models, weight: 3 },
    ]
    const setup = await startRouter(t, { a: () => reply.stall(), maxConcurrency: 4, tiers })
    const { a } = setup
    const askAs = (account: string, tier = 'light') => ask(setup, { account, tier, content: account })
    const asked = Array.from({ length: 12 }, () => askAs('many'))
    await a.received(4)
    for (let request = 0; request < 4; request++) asked.push(askAs('paying', 'heavy'))
    asked.push(askAs('single'))
    for (let answered = 0; answered < 6; answered++) {
      a.releaseNext()
      await a.received(5 + answered)
    }
    const accounts = a.requests.map(({ body }) => body.messages[0]?.content)
    assert.deepEqual(accounts.slice(4), ['paying', 'single', 'paying', 'many', 'paying', 'paying'])
    await answerAll(a, asked)
    assert.equal(a.mostRunning(), 4)
  })
})

describe('the room of a route', () => {
  it('is what its first target can start now, and an eighth more', async (t) => {
    const setup = await startRouter(t, { a: () => reply.stall(), isPatient: true, maxConcurrency: 64 })
    const { router, a } = setup
    assert.deepEqual([router.room('a/m'), router.room('unknown')], [64 + 8, Number.POSITIVE_INFINITY])
    const asked = Array.from({ length: 70 }, (_, n) => ask(setup, { jobId: `job ${n}` }))
    await a.received(64)
    assert.equal(router.room('a/m'), 8 - 6)
    await answerAll(a, asked)
  })

  it('is none while jobs that call one at a time hold half of the slots of the node', async (t) => {
    const setup = await startRouter(t, { a: () => reply.stall(), isPatient: true, slots: 8 })
    const { router, a } = setup
    const asked: Promise<unknown>[] = []
    const rooms: number[] = []
    for (let n = 0; n < 6; n++) {
      asked.push(ask(setup, { jobId: `job ${n}`, tries: MAX_TRIES - 1 }))
      await a.received(1)
      rooms.push(router.room('a/m'))
    }
    assert.deepEqual(rooms, [17, 17, 17, 17, 0, 0])
    // Another route keeps its room although one of its jobs waits.
    asked.push(ask(setup, { model: 'two', jobId: 'other', tries: MAX_TRIES - 1 }))
    const route = router.routeOf({ model: 'two', tier: 'user_max', inputTokens: 10 })
    const waiting = router.waitingJobs().map(({ jobIds }) => jobIds.size)
    assert.deepEqual([waiting, router.room(route)], [[5, 1], 17])
    await answerAll(a, asked)
    assert.equal(router.room('a/m'), 18)
  })
})

describe('beforeCall', () => {
  it('is awaited once, before the first call and after the slot is acquired', async (t) => {
    const setup = await startRouter(t, { a: () => reply.status(500), isPatient: true })
    const seen: [requests: number, running: number | undefined][] = []
    const beforeCall = async () => {
      seen.push([setup.a.requests.length, setup.router.state()[0]?.running])
    }
    await ask(setup, { beforeCall, pauses: 2 })
    assert.deepEqual(seen, [[0, 1]])
  })

  it('is not followed by a call if the model server has become unavailable meanwhile', async (t) => {
    const busy = reply.status(429, { headers: { 'retry-after': '30' } })
    const setup = await startRouter(t, { a: () => busy, isPatient: true })
    const started = Promise.withResolvers<void>()
    const asked = ask(setup, { beforeCall: () => started.promise })
    await ask(setup, { jobId: 'another job' })
    started.resolve()
    assert.ok((await asked).wait)
    assert.equal(setup.a.requests.length, 1)
  })
})

describe('the stop signal', () => {
  it('ends a call, a wait for a slot and a pause at once', async (t) => {
    const setup = await startRouter(t, { a: () => reply.stall(), maxConcurrency: 1 })
    const { router, clock, a } = setup
    const [calls, waits, pauses] = [new Stop(), new Stop(), new Stop()]
    const stopped = async (signal: Stop, asked: Promise<RoutedReply>) => {
      signal.now('release')
      const { reply: last, calls } = await asked
      assert.ok(last.kind === 'error' && last.aborted)
      return [calls.length, last.message] as const
    }
    const [calling, waiting] = [calls, waits].map((signal) => ask(setup, { signal }))
    assert.ok(calling && waiting)
    await a.received(1)
    assert.equal((await stopped(waits, waiting))[0], 0)
    assert.equal((await stopped(calls, calling))[0], 1)

    a.script = failing
    const pausing = ask(setup, { signal: pauses })
    await clock.timerSet(isPause)
    assert.match((await stopped(pauses, pausing))[1], /answers 503/)
    assert.deepEqual(clock.pending(), [])
    assert.equal(router.state()[0]?.running, 0)
  })
})

it('counts the jobs that wait for any rate of an upstream', async (t) => {
  const limited = (model: string) => ({ targets: [{ upstream: 'a', model, requests_per_minute: 1 }] })
  const signal = new Stop()
  const setup = await startRouter(t, { models: { one: limited('m'), other: limited('n') } })
  const { router, a } = setup
  const asked = ['one', 'one', 'other', 'other', 'other'].map((model, at) =>
    ask(setup, { model, jobId: `job ${at}`, signal }),
  )
  await a.received(2)
  assert.equal(router.state()[0]?.waitingForRate, 3)
  signal.now('release')
  await Promise.all(asked)
  assert.equal(router.state()[0]?.waitingForRate, 0)
})
