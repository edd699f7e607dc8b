/** Routing: targets in order, rounds with pauses, concurrency limits and the stop signal. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { reply, type Script } from '../../test/model-server.ts'
import {
  CALL_TIMEOUT_MS,
  failing,
  isPause,
  modelRequest,
  never,
  passPauses,
  startRouter,
} from '../../test/support/router-setup.ts'
import { Stop } from '../job/stop.ts'
import type { FailedCall } from './call-target.ts'
import { FIRST_CHECK_MS } from './circuit-breaker.ts'
import { BACKOFF_FACTOR, FIRST_BACKOFF_MS, JITTER, MAX_RETRY_AFTER_MS } from './retry-after.ts'
import { ROUNDS } from './router.ts'

describe('the record of a call', () => {
  it('contains the request format of each server that was called', async (t) => {
    const settings = { roles: 'developer_as_system', structured_output: 'none' } as const
    const { router } = await startRouter(t, { a: failing, settings: { a: settings } })
    const form = {
      kind: 'schema',
      schemaJson: '{"type":"object","properties":{}}',
      strict: false,
      isObject: true,
    } as const
    const { prompt } = modelRequest('two')
    const routed = await router.ask(modelRequest('two', { prompt: { ...prompt, form } }), never)
    const [first, second] = routed.calls
    assert.ok(first && second)
    const { instruction, ...rest } = first
    assert.match(instruction ?? '', /JSON Schema/)
    assert.deepEqual(rest, {
      target: 'a/m',
      kind: 'trouble',
      status: 503,
      at_ms: rest.at_ms,
      ms: 0,
      roles: 'developer_as_system',
      json_mode: 'instruction',
    })
    assert.deepEqual(
      [second.roles, second.json_mode, second.instruction],
      ['native', 'json_schema', undefined],
    )
  })

  it('has no JSON mode if text was requested', async (t) => {
    const { router } = await startRouter(t)
    const [call] = (await router.ask(modelRequest('one'), never)).calls
    assert.deepEqual(call && Object.keys(call), ['target', 'kind', 'status', 'at_ms', 'ms', 'roles'])
  })
})

describe('a schema that the server rejects', () => {
  const patternError = { error: { code: 500, message: "Pattern must start with '^'", type: 'server_error' } }
  const schema = { type: 'object', properties: { a: { type: 'string', pattern: 'b' } } }
  const form = {
    kind: 'schema',
    schemaJson: JSON.stringify(schema),
    strict: false,
    isObject: true,
  } as const
  const rejectsSchemas: Script = ({ body }) =>
    body.response_format?.type === 'json_schema' ? reply.status(500, { body: patternError }) : undefined

  it('is sent as an instruction at once; neither the target nor the number of rounds is charged', async (t) => {
    const settings = { a: { roles: 'native' } } as const
    const { router, a, events } = await startRouter(t, { a: rejectsSchemas, settings })
    const { prompt } = modelRequest('one')
    for (let n = 0; n < 8; n++) {
      const routed = await router.ask(modelRequest('one', { prompt: { ...prompt, form } }), never)
      assert.equal(routed.reply.kind, 'answer')
      assert.deepEqual(
        routed.calls.map(({ status, json_mode, other_format }) => [status, json_mode, other_format]),
        [
          [500, 'json_schema', undefined],
          [200, 'json_object', 'json_mode'],
        ],
      )
    }
    assert.equal(events.length, 16)
    assert.equal(router.state()[0]?.targets[0]?.consecutiveFailures, 0)
    assert.deepEqual(a.requests[1]?.body.response_format, { type: 'json_object' })
    assert.ok(String(a.requests[1]?.body.messages[0]?.content).includes(form.schemaJson))
  })

  it('is sent without any format if the server rejects json_object, too', async (t) => {
    const error = (message: string) => reply.status(400, { body: { error: message } })
    const script: Script = ({ body: { response_format } }) => {
      if (response_format?.type === 'json_schema') return error("Pattern must start with '^'")
      return response_format && error("'response_format.type' must be 'json_schema' or 'text'")
    }
    const { router } = await startRouter(t, { a: script })
    const { prompt } = modelRequest('one')
    const routed = await router.ask(modelRequest('one', { prompt: { ...prompt, form } }), never)
    assert.deepEqual(
      routed.calls.map(({ status, json_mode, other_format }) => [status, json_mode, other_format]),
      [
        [400, 'json_schema', undefined],
        [400, 'json_object', 'json_mode'],
        [200, 'instruction', 'json_mode'],
      ],
    )
  })

  it('is not what any other 500 is about', async (t) => {
    const { router, clock, a } = await startRouter(t, { a: () => reply.status(500) })
    const { prompt } = modelRequest('one')
    const asked = router.ask(modelRequest('one', { prompt: { ...prompt, form } }), never)
    await passPauses(clock, ROUNDS - 1)
    await asked
    assert.equal(a.requests.length, ROUNDS)
  })
})

describe('a failed call', () => {
  it('is reported for the log with its code', async (t) => {
    const failed: FailedCall[] = []
    const { router, clock, b } = await startRouter(t, {
      a: () => reply.status(429, { body: { error: { message: 'Pay.', code: 'insufficient_quota' } } }),
      onFailedCall: (call) => failed.push(call),
    })
    await b.close()
    const asked = router.ask(modelRequest('two'), never)
    await passPauses(clock, ROUNDS - 1)
    await asked
    assert.deepEqual(
      failed
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
    const { router, a, b } = await startRouter(t)
    const routed = await router.ask(modelRequest('two'), never)
    assert.deepEqual(routed.reply, { kind: 'answer', text: 'echo: Hi', tokens: { input: 2, output: 8 } })
    assert.equal(routed.target, 'a/m')
    assert.equal(a.requests[0]?.body.model, 'm')
    assert.equal(b.requests.length, 0)
  })

  for (const status of [401, 404, 408, 409, 429, 500, 503]) {
    it(`${status} tries the next target at once`, async (t) => {
      const { router, b } = await startRouter(t, { a: () => reply.status(status) })
      const routed = await router.ask(modelRequest('two'), never)
      assert.equal(routed.reply.kind, 'answer')
      assert.equal(routed.target, 'b/n')
      assert.equal(b.requests[0]?.body.model, 'n')
      assert.deepEqual(
        routed.calls.map((call) => [call.target, call.kind, call.status]),
        [
          ['a/m', 'trouble', status],
          ['b/n', 'answer', 200],
        ],
      )
    })
  }

  for (const [name, script] of [
    ['a reset', () => reply.reset()],
    ['a reset in the middle of an answer', () => reply.resetMidBody()],
  ] as const) {
    it(`${name} tries the next target at once`, async (t) => {
      const { router } = await startRouter(t, { a: script })
      assert.equal((await router.ask(modelRequest('two'), never)).target, 'b/n')
    })
  }

  it('after a call that stalls, the next target is tried at the timeout', async (t) => {
    const { router, clock, a } = await startRouter(t, { a: () => reply.stall() })
    const asked = router.ask(modelRequest('two'), never)
    await a.received(1)
    clock.advance(CALL_TIMEOUT_MS)
    assert.equal((await asked).target, 'b/n')
  })

  for (const [name, script, kind] of [
    ['400', () => reply.status(400), 'error'],
    ['a 200 that is not a chat completion', () => reply.notACompletion(), 'error'],
    ['a refusal', () => reply.refusal(), 'refused'],
  ] as const) {
    it(`${name} ends the request`, async (t) => {
      const { router, b } = await startRouter(t, { a: script })
      const routed = await router.ask(modelRequest('two'), never)
      assert.equal(routed.reply.kind, kind)
      assert.equal(routed.target, 'a/m')
      assert.equal(routed.calls.length, 1)
      assert.equal(b.requests.length, 0)
    })
  }

  it('a model that is no longer configured is an error, not a bug', async (t) => {
    const { router } = await startRouter(t)
    const routed = await router.ask(modelRequest('gone'), never)
    assert.equal(routed.reply.kind === 'error' && routed.reply.retryable, false)
    assert.equal(routed.target, null)
    assert.deepEqual(routed.calls, [])
  })

  it('sums the tokens of all calls, and emits an event for each', async (t) => {
    const { router, events } = await startRouter(t, {
      a: () =>
        reply.notACompletion({
          choices: [{ message: {} }],
          usage: { prompt_tokens: 7, completion_tokens: 1 },
        }),
    })
    const routed = await router.ask(modelRequest('one'), never)
    assert.deepEqual(routed.tokens, { input: 7, output: 1 })
    assert.deepEqual(events, [
      { upstream: 'a', model: 'm', kind: 'error', status: 200, aborted: false, isTruncated: false, ms: 0 },
    ])
  })
})

describe('rounds', () => {
  it('are at most three, with growing pauses between them; then the last error is the reply', async (t) => {
    const { router, clock, a, b } = await startRouter(t, { a: failing, b: () => reply.status(500) })
    const asked = router.ask(modelRequest('two'), never)
    assert.deepEqual(await passPauses(clock, ROUNDS - 1), [
      FIRST_BACKOFF_MS,
      FIRST_BACKOFF_MS * BACKOFF_FACTOR,
    ])
    const routed = await asked
    assert.equal(routed.reply.kind === 'error' && routed.reply.status, 500)
    assert.equal(routed.target, 'b/n')
    assert.deepEqual(
      routed.calls.map((call) => call.target),
      ['a/m', 'b/n', 'a/m', 'b/n', 'a/m', 'b/n'],
    )
    assert.deepEqual([a.requests.length, b.requests.length], [ROUNDS, ROUNDS])
    assert.deepEqual(clock.pending(), [FIRST_CHECK_MS, FIRST_CHECK_MS], 'only the checks of both targets')
  })

  it('a later round may succeed', async (t) => {
    const { router, clock } = await startRouter(t, {
      a: (_request, index) => (index < 2 ? reply.status(503) : undefined),
    })
    const asked = router.ask(modelRequest('one'), never)
    await passPauses(clock, 2)
    assert.equal((await asked).reply.kind, 'answer')
  })

  it('pause with jitter', async (t) => {
    for (const [random, factor] of [
      [0, 1 - JITTER],
      [0.999_999_999, 1 + JITTER],
    ] as const) {
      const { router, clock } = await startRouter(t, { a: failing, random: () => random })
      const asked = router.ask(modelRequest('one'), never)
      const [first = 0] = await passPauses(clock, ROUNDS - 1)
      assert.ok(Math.abs(first - FIRST_BACKOFF_MS * factor) < 0.01, String(first))
      await asked
    }
  })

  it('respect Retry-After: never sooner, a little later because of jitter, and bounded', async (t) => {
    const waits: Record<string, number> = { '7': 7_000, '86400': MAX_RETRY_AFTER_MS }
    for (const [seconds, least] of Object.entries(waits)) {
      const headers = { 'retry-after': seconds }
      const { router, clock, a } = await startRouter(t, {
        a: (_request, index) => (index === 0 ? reply.status(429, { headers }) : undefined),
      })
      const asked = router.ask(modelRequest('one'), never)
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
      const { router, clock } = setup
      const asked = router.ask(modelRequest('two'), never)
      const pauseMs = 4_000 * (1 + JITTER / 2)
      await clock.timerSet((ms) => ms === pauseMs)
      clock.advance(pauseMs)
      assert.equal((await asked).target, target)
      assert.equal(setup[late].requests.length, 1)
    })
  }
})

describe('the concurrency limit', () => {
  it('queues requests in order of arrival, and the state shows them', async (t) => {
    const { router, a } = await startRouter(t, { a: () => reply.stall(), maxConcurrency: 2 })
    const ask = (content: string) =>
      router.ask(
        modelRequest('one', {
          prompt: {
            ...modelRequest('one').prompt,
            messagesJson: JSON.stringify([{ role: 'user', content }]),
          },
        }),
        never,
      )
    const asked = ['0', '1', '2', '3'].map(ask)
    await a.received(2)
    const { running, waiting, maxConcurrency } = router.state()[0] ?? {}
    assert.deepEqual({ running, waiting, maxConcurrency }, { running: 2, waiting: 2, maxConcurrency: 2 })
    a.script = () => undefined
    a.release()
    await Promise.all(asked)
    assert.deepEqual(a.requests.map(({ body }) => body.messages[0]?.content).slice(2), ['2', '3'])
    assert.equal(a.mostRunning(), 2)
    assert.equal(router.state()[0]?.running, 0)
  })

  it('gives the next free slot to the waiting account that holds fewest, by the weight of its tier', async (t) => {
    const models = { one: { targets: [{ upstream: 'a', model: 'm' }] } }
    const names = new Set(['one'])
    const { router, a } = await startRouter(t, {
      a: () => reply.stall(),
      maxConcurrency: 4,
      models,
      tiers: [
        { name: 'light', models: names, weight: 1 },
        { name: 'heavy', models: names, weight: 3 },
      ],
    })
    const ask = (account: string, tier: string) => {
      const messagesJson = JSON.stringify([{ role: 'user', content: account }])
      const prompt = { account, messagesJson, form: { kind: 'text' } } as const
      return router.ask(modelRequest('one', { account, tier, prompt }), never)
    }
    const asked = Array.from({ length: 12 }, () => ask('many', 'light'))
    await a.received(4)
    for (let request = 0; request < 4; request++) asked.push(ask('paying', 'heavy'))
    asked.push(ask('single', 'light'))
    for (let answered = 0; answered < 4; answered++) {
      a.releaseNext()
      await a.received(5 + answered)
    }
    const accounts = a.requests.map(({ body }) => body.messages[0]?.content)
    assert.deepEqual(accounts.slice(4), ['paying', 'single', 'paying', 'many'])
    a.script = () => undefined
    a.release()
    await Promise.all(asked)
    assert.equal(a.mostRunning(), 4)
  })
})

describe('the stop signal', () => {
  it('ends a call, a wait for a slot and a pause at once', async (t) => {
    const { router, clock, a } = await startRouter(t, { a: () => reply.stall(), maxConcurrency: 1 })
    const stops = [new Stop(), new Stop()]
    const [calling, waiting] = stops.map((signal) => router.ask(modelRequest('one'), signal))
    await a.received(1)
    stops[1]?.now('release')
    const stopped = await waiting
    assert.equal(stopped?.reply.kind === 'error' && stopped.reply.aborted, true)
    assert.deepEqual(stopped?.calls, [])
    stops[0]?.now('release')
    const aborted = await calling
    assert.equal(aborted?.reply.kind === 'error' && aborted.reply.aborted, true)
    assert.equal(aborted?.calls.length, 1)

    a.script = failing
    const last = new Stop()
    const pausing = router.ask(modelRequest('one'), last)
    await clock.timerSet(isPause)
    last.now('release')
    const ended = await pausing
    assert.equal(ended.reply.kind === 'error' && ended.reply.aborted, true)
    assert.match(ended.reply.kind === 'error' ? ended.reply.message : '', /answers 503/)
    assert.deepEqual(clock.pending(), [])
    assert.equal(router.state()[0]?.running, 0)
  })
})

it('counts the jobs that wait for any rate of an upstream', async (t) => {
  const limited = (model: string) => ({ targets: [{ upstream: 'a', model, requests_per_minute: 1 }] })
  const stop = new Stop()
  const { router, a } = await startRouter(t, { models: { one: limited('m'), other: limited('n') } })
  const asked = ['one', 'one', 'other', 'other', 'other'].map((model, at) =>
    router.ask(modelRequest(model, { jobId: `job ${at}` }), stop),
  )
  await a.received(2)
  assert.equal(router.state()[0]?.waitingForRate, 3)
  stop.now('release')
  await Promise.all(asked)
  assert.equal(router.state()[0]?.waitingForRate, 0)
})
