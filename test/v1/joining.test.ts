/** Tests that a repeated request below /v1 joins the job of the earlier one, and that parallel equal requests do not. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import OpenAI from 'openai'
import { StoreUnavailable } from '../../src/store/store.ts'
import { pendingResponsesAre, startStage, stopAtOnce } from '../http/stage.ts'
import { reply, type Script } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import { eventually } from '../support/eventually.ts'
import { openaiOf } from './official-client.ts'
import { type SharedStage, shareStage } from './shared-stage.ts'

const SAMPLE = {
  model: 'gpt-5-mini',
  messages: [{ role: 'user' as const, content: 'Hello' }],
  temperature: 1,
}
/**
 * The client sends a timeout that belongs to one request, but not the one for all requests. The server answers five seconds
 * before that timeout.
 */
const CLIENT_MS = 27_000
const HELD_MS = 22_000
const RETRY = { headers: { 'x-stainless-retry-count': '1' }, maxRetries: 0 }

const numbered: Script = (_request, index) => reply.stall(reply.text(`answer ${index}`))

const textOf = ({ choices }: OpenAI.ChatCompletion) => choices[0]?.message.content

async function abandoned(
  t: TestContext,
  { openai, models, parley }: Pick<SharedStage, 'openai' | 'models' | 'parley'>,
  calls: number,
): Promise<void> {
  const hangUp = new AbortController()
  const asked = openai.chat.completions.create(SAMPLE, { signal: hangUp.signal })
  const failed = assert.rejects(asked, OpenAI.APIUserAbortError)
  await models.received(calls)
  hangUp.abort()
  await failed
  await pendingResponsesAre(t, parley, 0)
}

onEachStore(() => {
  const enter = shareStage()

  test('ten retries of one held create are one call of the model', async (t) => {
    const { parley, models, clock } = await startStage(t, { script: numbered })
    const openai = openaiOf(parley, await parley.key(), { maxRetries: 10 })
    let isHeld = clock.timerSet((ms) => ms === HELD_MS)
    const asked = openai.chat.completions.create(SAMPLE, { timeout: CLIENT_MS })
    await models.received(1)
    for (let retry = 0; retry < 10; retry++) {
      await isHeld
      isHeld = clock.timerSet((ms) => ms === HELD_MS)
      clock.advance(HELD_MS)
    }
    await isHeld
    models.release()
    assert.equal(textOf(await asked), 'answer 0')
    assert.equal(models.completions().length, 1)
  })

  test('a request of the Python client is answered before the timeout that it sends', async (t) => {
    const { parley, clock } = await startStage(t, { script: numbered })
    const openai = openaiOf(parley, await parley.key(), { maxRetries: 0 })
    for (const [timeoutS, heldMs] of [
      ['27.0', HELD_MS],
      ['8.0', 4000],
      ['3.0', 1500],
    ] as const) {
      const isHeld = clock.timerSet((ms) => ms === heldMs)
      const headers = { 'x-stainless-read-timeout': timeoutS }
      const request = { ...SAMPLE, user: timeoutS }
      const failed = assert.rejects(openai.chat.completions.create(request, { headers }), /408/)
      await isHeld
      clock.advance(heldMs)
      await failed
    }
  })

  test('five equal requests that all time out and retry get five answers of five calls', async (t) => {
    const { parley, models, clock } = await startStage(t, { script: numbered })
    const openai = openaiOf(parley, await parley.key())
    const asked = Array.from({ length: 5 }, () =>
      openai.chat.completions.create(SAMPLE, { timeout: CLIENT_MS }),
    )
    await models.received(5)
    await pendingResponsesAre(t, parley, 5)
    clock.advance(HELD_MS)
    const timedOut = async () => parley.log.filter(({ status }) => status === 408).length
    await eventually(timedOut, (count) => count === 5)
    await pendingResponsesAre(t, parley, 5)
    models.release()
    const texts = (await Promise.all(asked)).map(textOf)
    assert.equal(new Set(texts).size, 5, `${texts}`)
    assert.equal(models.completions().length, 5)
  })

  test('an equal request joins the job of a caller that left, for ten minutes', async (t) => {
    const { parley, models, clock } = await startStage(t, { script: numbered })
    const openai = openaiOf(parley, await parley.key(), { maxRetries: 0 })
    const stage = { openai, models, parley }
    await abandoned(t, stage, 1)
    const joined = openai.chat.completions.create(SAMPLE)
    await pendingResponsesAre(t, parley, 1)
    // The caller of the joined job is still connected, so an equal request gets its own job.
    const parallel = openai.chat.completions.create(SAMPLE)
    await models.received(2)
    models.release()
    assert.equal(textOf(await joined), 'answer 0')
    assert.equal(textOf(await parallel), 'answer 1')
    await abandoned(t, stage, 3)
    clock.advance(600_000)
    const late = openai.chat.completions.create(SAMPLE)
    await models.received(4)
    models.release()
    assert.equal(textOf(await late), 'answer 3')
    // From now on, the server knows of every caller that left.
    await abandoned(t, stage, 5)
    const again = openai.chat.completions.create(SAMPLE)
    await pendingResponsesAre(t, parley, 1)
    models.release()
    assert.equal(textOf(await again), 'answer 4')
  })

  test('a job whose answer its caller got is never joined, not even by a retry', async () => {
    const { openai, models } = await enter()
    const first = await openai.chat.completions.create(SAMPLE)
    const second = await openai.chat.completions.create(SAMPLE, RETRY)
    assert.notEqual(first.id, second.id)
    assert.equal(models.completions().length, 2)
  })

  test('a job that finished after its caller had left answers the next request', async (t) => {
    const stage = await enter(numbered)
    const { parley, models, key, openai } = stage
    await abandoned(t, stage, 1)
    models.release()
    const [{ job_id: id }] = (await parley.get('/api/v1/messages', key)).body.data.jobs
    await parley.ended(id, key)
    const { id: found, ...answer } = await openai.chat.completions.create(SAMPLE)
    assert.equal(found, `chatcmpl-${id}`)
    assert.equal(textOf({ id, ...answer }), 'answer 0')
    assert.equal(models.completions().length, 1)
  })

  test('a request that fails after it has joined leaves the job to the next one', async (t) => {
    const stage = await enter(numbered, { maxRetries: 0 })
    const { parley, models, openai } = stage
    await abandoned(t, stage, 1)
    const { mock } = t.mock.method(parley.store, 'read')
    mock.mockImplementationOnce(() => Promise.reject(new StoreUnavailable('in the test')))
    await assert.rejects(openai.chat.completions.create(SAMPLE), /503/)
    const joined = openai.chat.completions.create(SAMPLE)
    await pendingResponsesAre(t, parley, 1)
    models.release()
    assert.equal(textOf(await joined), 'answer 0')
  })

  test('another body, another key and another account never join', async (t) => {
    const stage = await enter(numbered)
    const { parley, models, openai } = stage
    await abandoned(t, stage, 1)
    const others = [
      openai.chat.completions.create({ ...SAMPLE, user: 'you' }, RETRY),
      openaiOf(parley, await parley.key('user_go')).chat.completions.create(SAMPLE, RETRY),
    ]
    await models.received(3)
    models.release()
    assert.deepEqual((await Promise.all(others)).map(textOf).sort(), ['answer 1', 'answer 2'])
  })

  test('a request whose schema differs beyond the 53rd bit does not join', async () => {
    const { parley, models, key } = await enter(() => reply.stall())
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...RETRY.headers }
    const ask = (id: string) => {
      const format = { type: 'json_schema', json_schema: { name: 'a', schema: { enum: ['ID'] } } }
      const body = JSON.stringify({ ...SAMPLE, response_format: format }).replace('"ID"', id)
      return parley.request('/v1/chat/completions', { method: 'POST', headers, body })
    }
    const first = ask('9007199254740993')
    await models.received(1)
    const second = ask('9007199254740992')
    await models.received(2)
    models.script = () => reply.status(400)
    models.release()
    await Promise.all([first, second])
  })

  test('the retry of a request that a stopping server could not answer joins after the restart', async (t) => {
    const stage = await startStage(t, { script: numbered })
    const { parley, models } = stage
    const key = await parley.key()
    const asked = openaiOf(parley, key, { maxRetries: 0 }).chat.completions.create(SAMPLE)
    const failed = assert.rejects(asked, (error) => {
      assert.ok(error instanceof OpenAI.APIError && error.status === 503, `${error}`)
      assert.equal(error.headers?.get('connection'), 'close')
      return true
    })
    await models.received(1)
    await stopAtOnce(stage)
    await failed
    const after = await startStage(t, { after: stage, script: () => reply.text('after') })
    const retried = await openaiOf(after.parley, key).chat.completions.create(SAMPLE)
    assert.equal(textOf(retried), 'after')
    assert.equal((await after.parley.get('/api/v1/messages', key)).body.data.jobs.length, 1)
  })

  test('a retry that the server cannot hold is told to wait, like the first request', async (t) => {
    const { parley, models } = await startStage(t, {
      script: numbered,
      settings: { sync: { max_waiters: 0 } },
    })
    const openai = openaiOf(parley, await parley.key(), { maxRetries: 0 })
    for (const options of [{}, RETRY]) {
      const error = await openai.chat.completions.create(SAMPLE, options).catch((refused: unknown) => refused)
      assert.ok(error instanceof OpenAI.APIError)
      assert.deepEqual([error.status, error.headers?.get('retry-after-ms')], [503, '1000'])
      assert.equal(error.headers?.get('connection'), 'keep-alive')
      await models.received(1)
    }
    assert.equal(models.completions().length, 1)
  })

  test('retries join on another node', {
    skip: storeName() === 'SQLite' && 'one server per file',
  }, async (t) => {
    const stage = await startStage(t, { script: numbered })
    const { parley, models } = stage
    const other = await startStage(t, { after: stage, script: numbered })
    const key = await parley.key()
    const asked = [parley, parley].map((node) => {
      return openaiOf(node, key).chat.completions.create(SAMPLE, { timeout: CLIENT_MS, maxRetries: 0 })
    })
    const failed = asked.map((one) => assert.rejects(one, /408/))
    await models.received(2)
    await pendingResponsesAre(t, parley, 2)
    stage.clock.advance(HELD_MS)
    await Promise.all(failed)
    const openaiOfOther = openaiOf(other.parley, key)
    const retried = [1, 2].map(() => openaiOfOther.chat.completions.create(SAMPLE, RETRY))
    await pendingResponsesAre(t, other.parley, 2)
    models.release()
    // Notifications may be lost. The poll each second finds what they reported.
    const poll = setInterval(() => stage.clock.advance(1000), 20)
    t.after(() => clearInterval(poll))
    const texts = (await Promise.all(retried)).map(textOf)
    assert.deepEqual(texts.sort(), ['answer 0', 'answer 1'])
    assert.equal(models.completions().length, 2)
  })

  test('a caller who is connected to another node is not left alone', {
    skip: storeName() === 'SQLite' && 'one server per file',
  }, async (t) => {
    const stage = await startStage(t, { script: numbered })
    const { parley, models } = stage
    const other = await startStage(t, { after: stage, script: numbered })
    const key = await parley.key()
    const first = openaiOf(parley, key).chat.completions.create(SAMPLE)
    await models.received(1)
    const sample = openaiOf(other.parley, key).chat.completions.create(SAMPLE)
    await models.received(2)
    models.release()
    assert.deepEqual((await Promise.all([first, sample])).map(textOf), ['answer 0', 'answer 1'])
  })
})
