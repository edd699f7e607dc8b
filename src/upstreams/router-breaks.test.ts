/** Tests jobs that break the connection to a model server, with a real router and server. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isModelList, reply, type Script } from '../../test/model-server.ts'
import {
  ask,
  callsOf,
  isPause,
  passCheck,
  passPauses,
  type RequestOptions,
  startRouter,
} from '../../test/support/router-setup.ts'
import { schemaFingerprint } from './breaks.ts'
import { FIRST_CHECK_MS } from './circuit-breaker.ts'
import type { AnswerForm } from './model-server.ts'
import { FIRST_BACKOFF_MS } from './retry-after.ts'

const schemaJson = '{"type":"object","properties":{"a":{"type":"string","pattern":"(x{1,99}){1,99}"}}}'
const form: AnswerForm = { kind: 'schema', schemaJson, strict: false, isObject: true }

const sendsSchema: Script = ({ body }) =>
  body.response_format?.type === 'json_schema' ? reply.reset() : undefined

describe('a schema that crashes model servers', () => {
  it('is left out after two breaks of a job, and for other jobs as well', async (t) => {
    const setup = await startRouter(t, { a: sendsSchema, b: sendsSchema, isPatient: true })
    const { clock, failed } = setup
    await ask(setup, { model: 'two', jobId: 'innocent' })
    const routed = await ask(setup, { model: 'two', jobId: 'killer', form, pauses: 1 })
    assert.equal(routed.reply.kind, 'answer')
    const broke = { in_progress: 1, counts: true, schema: schemaFingerprint(schemaJson) }
    assert.deepEqual(callsOf(routed, 'target', 'json_mode', 'other_format'), [
      'a/m json_schema -',
      'b/n json_schema -',
      'a/m json_object json_mode',
    ])
    assert.deepEqual(
      routed.calls.map((call) => call.broke),
      [broke, { ...broke, counts: false }, undefined],
    )
    assert.deepEqual(
      failed.map((call) => [call.jobId, call.upstream, call.broke?.schema]),
      ['a', 'b'].map((upstream) => ['killer', upstream, broke.schema]),
    )
    for (let n = 0; n < 6; n++) {
      const asked = ask(setup, { model: 'two', jobId: `killer ${n}`, form })
      if (failed.length < 4) await Promise.race([asked, passPauses(clock, 1)])
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
    await ask(setup, { jobId: 'first' })
    const asked = ask(setup, { jobId: 'poison', content: 'poison' })
    for (let n = 1; n < 3; n++) {
      await setup.clock.timerSet(isPause)
      assert.equal((await ask(setup, { jobId: `other ${n}` })).reply.kind, 'answer')
      await passPauses(setup.clock, 1)
    }
    const { reply: got, wait, calls } = await asked
    assert.deepEqual([wait, calls.length], [undefined, 3])
    assert.match(
      got.kind === 'error' ? got.message : '',
      /broke during 3 calls for this job.*crashes the model server/,
    )
    assert.equal(setup.router.limited.size, 0)
  })

  it('pauses longer after each break from the third, or until the target answers another job', async (t) => {
    const setup = await startRouter(t, { isPatient: true })
    const impatient = await startRouter(t, {})
    const pauses = async (seen: number, asking = setup) => {
      const breaks = { seen, unexpected: 0, counted: 0, lastMs: asking.clock.nowMs() }
      const asked = ask(asking, { jobId: `poison ${seen}`, breaks })
      const ms = await Promise.race([asking.clock.timerSet(isPause), asked.then(() => 0)])
      if (ms > 0) {
        assert.equal((await ask(asking, { jobId: 'other' })).reply.kind, 'answer')
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
    const { clock, a } = setup
    await a.kill()
    assert.ok((await ask(setup, { jobId: 'first', pauses: 2 })).wait)
    await a.start()
    const breaks = { seen: 2, unexpected: 2, counted: 2, lastMs: clock.nowMs() }
    const asked = ask(setup, { model: 'two', jobId: 'poison', breaks })
    await clock.timerSet((ms) => ms === FIRST_BACKOFF_MS)
    clock.advance(FIRST_CHECK_MS)
    assert.deepEqual(callsOf(await asked, 'target'), ['a/m'])
  })

  it('waits like all others while nothing is answered, although checks are', async (t) => {
    const script: Script = (request) => (isModelList(request) ? undefined : reply.reset())
    const setup = await startRouter(t, { a: script, isPatient: true })
    let request: RequestOptions = { jobId: 'poison' }
    for (let run = 0; run < 5; run++) {
      const { wait } = await ask(setup, { ...request, pauses: run === 0 ? 2 : 0 })
      assert.ok(wait, `run ${run}`)
      assert.equal(wait.breaks?.counted, 0)
      request = { ...request, tries: wait.tries, ...(wait.breaks && { breaks: wait.breaks }) }
      await passCheck(setup, 5000, isPause)
    }
  })
})
