/** Jobs that break the connection to a model server, with a real router and server. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isModelList, reply, type Script } from '../../test/model-server.ts'
import {
  CALL_TIMEOUT_MS,
  modelRequest,
  never,
  passPauses,
  type RouterSetup,
  startRouter,
} from '../../test/support/router-setup.ts'
import { schemaFingerprint } from './breaks.ts'
import type { FailedCall } from './call-target.ts'
import { FIRST_CHECK_MS } from './circuit-breaker.ts'
import type { AnswerForm } from './model-server.ts'
import { FIRST_BACKOFF_MS } from './retry-after.ts'

const SCHEMA = '{"type":"object","properties":{"a":{"type":"string","pattern":"(x{1,99}){1,99}"}}}'
const FORM: AnswerForm = { kind: 'schema', schemaJson: SCHEMA, strict: false, isObject: true }

const sendsSchema: Script = ({ body }) =>
  body.response_format?.type === 'json_schema' ? reply.reset() : undefined

const ask = ({ router }: RouterSetup, model: string, jobId: string, content: string, form?: AnswerForm) => {
  const messagesJson = JSON.stringify([{ role: 'user', content }])
  const prompt = { account: 'acme', messagesJson, form: form ?? { kind: 'text' } } as const
  return router.ask(modelRequest(model, { jobId, prompt }), never)
}

describe('a schema that crashes model servers', () => {
  it('is left out after two breaks of a job, and for other jobs as well', async (t) => {
    const failed: FailedCall[] = []
    const setup = await startRouter(t, {
      a: sendsSchema,
      b: sendsSchema,
      isPatient: true,
      onFailedCall: (call) => failed.push(call),
    })
    await ask(setup, 'two', 'innocent', 'Hi')
    const first = ask(setup, 'two', 'killer', 'Hi', FORM)
    await passPauses(setup.clock, 1)
    const { reply: got, calls } = await first
    assert.equal(got.kind, 'answer')
    const fingerprint = schemaFingerprint(SCHEMA)
    assert.deepEqual(
      calls.map(({ target, json_mode, other_format, broke }) => [target, json_mode, other_format, broke]),
      [
        ['a/m', 'json_schema', undefined, { in_progress: 1, counts: true, schema: fingerprint }],
        ['b/n', 'json_schema', undefined, { in_progress: 1, counts: false, schema: fingerprint }],
        ['a/m', 'json_object', 'json_mode', undefined],
      ],
    )
    assert.deepEqual(
      failed.map(({ jobId, upstream, broke }) => [jobId, upstream, broke?.schema]),
      [
        ['killer', 'a', fingerprint],
        ['killer', 'b', fingerprint],
      ],
    )
    for (let n = 0; n < 6; n++) {
      const asked = ask(setup, 'two', `killer ${n}`, 'Hi', FORM)
      if (failed.length < 4) await Promise.race([asked, passPauses(setup.clock, 1)])
      assert.equal((await asked).reply.kind, 'answer')
    }
    assert.ok(failed.length <= 6, `${failed.length} breaks`)
  })
})

describe('a job that breaks the connection whatever its format', () => {
  it('fails at the third break that counts, in which it ran alone', async (t) => {
    const byContent: Script = ({ body }) =>
      body.messages?.[0]?.content === 'poison' ? reply.reset() : undefined
    const setup = await startRouter(t, { a: byContent, isPatient: true })
    await ask(setup, 'one', 'first', 'Hi')
    const asked = ask(setup, 'one', 'poison', 'poison')
    for (let n = 1; n < 3; n++) {
      await setup.clock.timerSet((ms) => ms !== CALL_TIMEOUT_MS)
      assert.equal((await ask(setup, 'one', `other ${n}`, 'Hi')).reply.kind, 'answer')
      await passPauses(setup.clock, 1)
    }
    const { reply: got, wait, calls } = await asked
    assert.deepEqual([wait, calls.length], [undefined, 3])
    assert.match(got.kind === 'error' ? got.message : '', /crashes the model server/)
    assert.equal(setup.router.limited.size, 0)
  })

  it('pauses longer after each break from the third, or until the target answers another job', async (t) => {
    const setup = await startRouter(t, { isPatient: true })
    const impatient = await startRouter(t, {})
    const pauses = async (seen: number, asking = setup) => {
      const { router, clock } = asking
      const breaks = { seen, unexpected: 0, counted: 0, lastMs: clock.nowMs() }
      const asked = router.ask(modelRequest('one', { jobId: `poison ${seen}`, breaks }), never)
      const ms = await Promise.race([
        clock.timerSet((timerMs) => timerMs !== CALL_TIMEOUT_MS),
        asked.then(() => 0),
      ])
      if (ms > 0) {
        assert.equal((await ask(asking, 'one', 'other', 'Hi')).reply.kind, 'answer')
        assert.equal((await asked).reply.kind, 'answer')
      }
      return ms
    }
    const ms: number[] = []
    for (const seen of [2, 3, 4, 5, 8, 20]) ms.push(await pauses(seen))
    assert.deepEqual(ms, [0, 1000, 2000, 4000, 30_000, 30_000])
    assert.equal(await pauses(8, impatient), 0)
  })

  it('is called as soon as a check of its first target is answered, without another', async (t) => {
    const setup = await startRouter(t, { isPatient: true })
    const { router, clock, a } = setup
    await a.kill()
    const refused = ask(setup, 'one', 'first', 'Hi')
    await passPauses(clock, 2)
    assert.ok((await refused).wait)
    await a.start()
    const breaks = { seen: 2, unexpected: 2, counted: 2, lastMs: clock.nowMs() }
    const asked = router.ask(modelRequest('two', { jobId: 'poison', breaks }), never)
    await clock.timerSet((ms) => ms === FIRST_BACKOFF_MS)
    clock.advance(FIRST_CHECK_MS)
    const { calls } = await asked
    assert.deepEqual(
      calls.map(({ target }) => target),
      ['a/m'],
    )
  })

  it('waits like all others while nothing is answered, although checks are', async (t) => {
    const setup = await startRouter(t, {
      a: (request) => (isModelList(request) ? undefined : reply.reset()),
      isPatient: true,
    })
    let request = modelRequest('one', { jobId: 'poison' })
    for (let run = 0; run < 5; run++) {
      const asked = setup.router.ask(request, never)
      if (run === 0) await passPauses(setup.clock, 2)
      const { wait } = await asked
      assert.ok(wait, `run ${run}`)
      assert.equal(wait.breaks?.counted, 0)
      request = { ...request, tries: wait.tries, ...(wait.breaks && { breaks: wait.breaks }) }
      const changed = new Promise<void>((resolve) => setup.router.watch(resolve))
      await setup.clock.timerSet((ms) => ms !== CALL_TIMEOUT_MS)
      setup.clock.advance(5000)
      await changed
    }
  })
})
