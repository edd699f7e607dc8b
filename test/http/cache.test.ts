/** Tests `message_cache_ttl`: a later identical job is answered without a call to the model (SPEC §2.1). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job, startParley } from '../parley.ts'
import { completed, enqueued, failed } from './expect.ts'
import { type Stage, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'

/** Starts a stage whose model server answers every request with a different text. */
function startCounting(t: Parameters<typeof startStage>[0], settings = {}): Promise<Stage> {
  return startStage(t, { settings, script: (_request, index) => reply.text(`answer ${index}`) })
}

function isHit(answer: Answer): boolean {
  completed(answer)
  const header = answer.headers.get('x-cache')
  assert.ok(header === null || header === 'hit')
  return header === 'hit'
}

onEachStore(() => {
  test('an answer of the simulator is not returned once a model is configured', async (t) => {
    const models = await startModelServer({}, t)
    const simulated = await startParley(t)
    const key = await simulated.key()
    assert.equal(isHit(await simulated.post(MESSAGES, job(), key)), false)
    assert.equal(isHit(await simulated.post(MESSAGES, job(), key)), true)
    await simulated.stop()
    const parley = await startParley(t, { folder: simulated.folder, upstream: models.baseUrl })
    const answer = await parley.post(MESSAGES, job(), key)
    assert.equal(isHit(answer), false)
    assert.equal(completed(answer), 'echo: Hello')
  })

  test('2.1 an identical job is answered from the cache, and x-cache says so', async (t) => {
    const { parley, models } = await startCounting(t)
    const key = await parley.key()
    const first = await parley.post(MESSAGES, job(), key)
    assert.equal(isHit(first), false)
    const second = await parley.post(MESSAGES, job(), key)
    assert.equal(isHit(second), true)
    assert.equal(completed(second), 'answer 0')
    assert.notEqual(second.body.data.job_id, first.body.data.job_id)
    // A read doesn't show that the answer came from the cache.
    assert.equal((await parley.get(`${MESSAGES}/${second.body.data.job_id}`, key)).text, second.text)
    assert.equal(models.requests.length, 1)
  })

  test('2.1 jobs of a batch take part, and so do other keys of the account', async (t) => {
    const { parley, models } = await startCounting(t)
    const [one, two] = [await parley.key(), await parley.key()]
    const [first = ''] = enqueued(await parley.post(BATCHES, [job()], one), 1)
    completed(await parley.ended(first, one))
    const [second = ''] = enqueued(await parley.post(BATCHES, [job()], two), 1)
    assert.equal(completed(await parley.ended(second, two)), 'answer 0')
    assert.equal(isHit(await parley.post(MESSAGES, job({ timeout: 30, message_cache_ttl: 180 }), two)), true)
    assert.equal(models.requests.length, 1)
  })

  test('2.1 each job of a batch is cached as what it asks', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key()
    const jobs = ['one', 'two', 'three'].map((content) => job({ messages: [{ role: 'user', content }] }))
    for (const id of enqueued(await parley.post(BATCHES, jobs, key), jobs.length))
      completed(await parley.ended(id, key))
    const answers: unknown[] = []
    for (const one of jobs) {
      const answer = await parley.post(MESSAGES, one, key)
      assert.equal(isHit(answer), true)
      answers.push(completed(answer))
    }
    assert.deepEqual(answers, ['echo: one', 'echo: two', 'echo: three'])
    assert.equal(models.requests.length, jobs.length)
  })

  test('2.1 another model, format, schema or conversation is another job', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.json({}) })
    const key = await parley.key()
    const text = (content: string, role = 'user') => ({ role, content })
    const others = [
      {},
      { model: 'gpt-5' },
      { model: 'gpt-auto' },
      { response_format: { format: 'json' } },
      { response_format: { format: 'json', schema: {} } },
      { response_format: { format: 'json', schema: { type: 'object' } } },
      { messages: [text('Hello ')] },
      { messages: [text('hello')] },
      { messages: [text('Hello'), text('')] },
      { messages: [text(''), text('Hello')] },
      { messages: [text('', 'system'), text('Hello')] },
      { messages: [text('', 'developer'), text('Hello')] },
    ]
    for (const over of others) assert.equal(isHit(await parley.post(MESSAGES, job(over), key)), false)
    assert.equal(models.requests.length, others.length)
    for (const over of others) assert.equal(isHit(await parley.post(MESSAGES, job(over), key)), true)
  })

  test('2.1 another account never gets the answer', async (t) => {
    const { parley } = await startCounting(t)
    const [one, other] = [await parley.key('user_max', 'one'), await parley.key('user_max', 'other')]
    assert.equal(completed(await parley.post(MESSAGES, job(), one)), 'answer 0')
    const answer = await parley.post(MESSAGES, job(), other)
    assert.equal(isHit(answer), false)
    assert.equal(completed(answer), 'answer 1')
  })

  for (const [name, over, seconds] of [
    ['300 seconds by default', {}, 300],
    ['180 seconds', { message_cache_ttl: 180 }, 180],
    ['3600 seconds', { message_cache_ttl: 3600 }, 3600],
  ] as const) {
    test(`2.1 the answer is kept for ${name}, from the end of the job`, async (t) => {
      const { parley, models, clock } = await startCounting(t)
      const key = await parley.key()
      models.script = () => reply.stall(reply.text('slow'))
      const waiting = parley.post(MESSAGES, job(over), key)
      await models.received(1)
      clock.advance(80_000)
      models.release()
      assert.equal(isHit(await waiting), false)
      models.script = () => undefined
      clock.advance(seconds * 1000 - 1000)
      assert.equal(completed(await parley.post(MESSAGES, job(over), key)), 'slow')
      clock.advance(1000)
      assert.equal(isHit(await parley.post(MESSAGES, job(over), key)), false)
      assert.equal(models.requests.length, 2)
    })
  }

  test('2.1 a hit does not prolong the time: the answer is as old as it is', async (t) => {
    const { parley, clock } = await startCounting(t)
    const key = await parley.key()
    completed(await parley.post(MESSAGES, job(), key))
    clock.advance(200_000)
    assert.equal(isHit(await parley.post(MESSAGES, job(), key)), true)
    clock.advance(100_000)
    assert.equal(isHit(await parley.post(MESSAGES, job(), key)), false)
  })

  test('2.1 cache.enabled turns it off for all', async (t) => {
    const { parley, models } = await startCounting(t, { cache: { enabled: false } })
    const key = await parley.key()
    for (const words of ['answer 0', 'answer 1']) {
      const answer = await parley.post(MESSAGES, job(), key)
      assert.equal(isHit(answer), false)
      assert.equal(completed(answer), words)
    }
    assert.equal(models.requests.length, 2)
  })

  test('2.1 failed jobs are not cached', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.status(400) })
    const key = await parley.key()
    failed(await parley.post(MESSAGES, job(), key))
    models.script = () => undefined
    assert.equal(isHit(await parley.post(MESSAGES, job(), key)), false)
    assert.equal(isHit(await parley.post(MESSAGES, job(), key)), true)
  })

  test('2.1 cached responses survive a restart, and expire on time', async (t) => {
    const stage = await startCounting(t)
    const key = await stage.parley.key()
    completed(await stage.parley.post(MESSAGES, job(), key))
    await stage.parley.stop()
    stage.clock.advance(200_000)
    const { parley, clock } = await startStage(t, { after: stage })
    const hit = await parley.post(MESSAGES, job(), key)
    assert.equal(isHit(hit), true)
    assert.equal(completed(hit), 'answer 0')
    clock.advance(100_000)
    assert.equal(isHit(await parley.post(MESSAGES, job(), key)), false)
  })
})
