/** Tests `message_cache_ttl`: a later identical job is answered without a call to the model (SPEC §2.1). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply, type Script, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, startParley } from '../parley.ts'
import { callerOf, idOf, says, shareStage, startScene } from './caller.ts'
import { completed, failed } from './expect.ts'
import { startStage } from './stage.ts'

const COUNTING: Script = (_request, index) => reply.text(`answer ${index}`)

function isHit(answer: Answer): boolean {
  completed(answer)
  const header = answer.headers.get('x-cache')
  assert.ok(header === null || header === 'hit')
  return header === 'hit'
}

onEachStore(() => {
  const begin = shareStage()

  test('an answer of the simulator is not returned once a model is configured', async (t) => {
    const models = await startModelServer({}, t)
    const simulated = await startParley(t)
    const caller = await callerOf(simulated)
    assert.equal(isHit(await caller.create()), false)
    assert.equal(isHit(await caller.create()), true)
    await simulated.stop()
    const parley = await startParley(t, { folder: simulated.folder, upstream: models.baseUrl })
    const answer = await caller.at(parley).create()
    assert.deepEqual([isHit(answer), completed(answer)], [false, 'echo: Hello'])
  })

  test('2.1 an identical job is answered from the cache, and x-cache says so', async (t) => {
    const { caller, models } = await begin(t, COUNTING)
    const first = await caller.create()
    assert.equal(isHit(first), false)
    const second = await caller.create()
    assert.deepEqual([isHit(second), completed(second)], [true, 'answer 0'])
    assert.notEqual(idOf(second), idOf(first))
    // A read doesn't show that the answer came from the cache.
    assert.equal((await caller.read(idOf(second))).text, second.text)
    assert.equal(models.requests.length, 1)
  })

  test('2.1 jobs of a batch take part, and so do other keys of the account', async (t) => {
    const { parley, caller, models } = await begin(t, COUNTING)
    const other = await callerOf(parley, 'user_max', caller.account)
    completed(await caller.ended(await caller.enqueueOne()))
    assert.equal(completed(await other.ended(await other.enqueueOne())), 'answer 0')
    assert.equal(isHit(await other.create({ timeout: 30, message_cache_ttl: 180 })), true)
    assert.equal(models.requests.length, 1)
  })

  test('2.1 each job of a batch is cached as what it asks', async (t) => {
    const { caller, models } = await begin(t)
    const words = ['one', 'two', 'three']
    for (const id of await caller.enqueue(words.map((word) => says(word)))) completed(await caller.ended(id))
    for (const word of words) {
      const answer = await caller.ask(word)
      assert.deepEqual([isHit(answer), completed(answer)], [true, `echo: ${word}`])
    }
    assert.equal(models.requests.length, words.length)
  })

  test('2.1 another model, format, schema, conversation or option is another job; metadata and a deadline are not', async (t) => {
    const { caller, models } = await begin(t, () => reply.json({}))
    const text = (content: string, role = 'user') => ({ role, content })
    const json = (more: object) => ({ response_format: { format: 'json', ...more } })
    const others = [
      {},
      { model: 'gpt-5' },
      { model: 'gpt-auto' },
      json({}),
      json({ schema: {} }),
      json({ schema: { type: 'object' } }),
      { messages: [text('Hello ')] },
      { messages: [text('hello')] },
      { messages: [text('Hello'), text('')] },
      { messages: [text(''), text('Hello')] },
      { messages: [text('', 'system'), text('Hello')] },
      { messages: [text('', 'developer'), text('Hello')] },
      { options: { temperature: 0.2, seed: 1 } },
      { options: { temperature: 0.3, seed: 1 } },
    ]
    for (const over of others) assert.equal(isHit(await caller.create(over)), false)
    const same = [
      { options: {} },
      { options: { seed: 1, temperature: 0.2 } },
      { metadata: { customer: 'acme' } },
      { complete_within: 60 },
    ]
    for (const over of [...others, ...same]) assert.equal(isHit(await caller.create(over)), true)
    assert.equal(models.requests.length, others.length)
  })

  test('2.1 another account never gets the answer', async (t) => {
    const { parley, caller } = await begin(t, COUNTING)
    const other = await callerOf(parley, 'user_max', 'other')
    assert.equal(completed(await caller.create()), 'answer 0')
    const answer = await other.create()
    assert.deepEqual([isHit(answer), completed(answer)], [false, 'answer 1'])
  })

  for (const [name, over, seconds] of [
    ['300 seconds by default', {}, 300],
    ['180 seconds', { message_cache_ttl: 180 }, 180],
    ['3600 seconds', { message_cache_ttl: 3600 }, 3600],
  ] as const) {
    test(`2.1 the answer is kept for ${name}, from the end of the job`, async (t) => {
      const { caller, models, clock } = await begin(t, () => reply.stall(reply.text('slow')))
      const waiting = caller.create(over)
      await models.received(1)
      clock.advance(80_000)
      models.release()
      assert.equal(isHit(await waiting), false)
      models.script = () => undefined
      clock.advance(seconds * 1000 - 1000)
      assert.equal(completed(await caller.create(over)), 'slow')
      clock.advance(1000)
      assert.equal(isHit(await caller.create(over)), false)
      assert.equal(models.requests.length, 2)
    })
  }

  test('2.1 a hit does not prolong the time: the answer is as old as it is', async (t) => {
    const { caller, clock } = await begin(t, COUNTING)
    completed(await caller.create())
    clock.advance(200_000)
    assert.equal(isHit(await caller.create()), true)
    clock.advance(100_000)
    assert.equal(isHit(await caller.create()), false)
  })

  test('2.1 cache.enabled turns it off for all', async (t) => {
    const { caller } = await startScene(t, { settings: { cache: { enabled: false } }, script: COUNTING })
    for (const words of ['answer 0', 'answer 1']) {
      const answer = await caller.create()
      assert.deepEqual([isHit(answer), completed(answer)], [false, words])
    }
  })

  test('2.1 failed jobs are not cached', async (t) => {
    const { caller, models } = await begin(t, () => reply.status(400))
    failed(await caller.create())
    models.script = () => undefined
    assert.equal(isHit(await caller.create()), false)
    assert.equal(isHit(await caller.create()), true)
  })

  test('2.1 cached responses survive a restart, and expire on time', async (t) => {
    const scene = await startScene(t, { script: COUNTING })
    completed(await scene.caller.create())
    await scene.parley.stop()
    scene.clock.advance(200_000)
    const { parley, clock } = await startStage(t, { after: scene })
    const caller = scene.caller.at(parley)
    const hit = await caller.create()
    assert.deepEqual([isHit(hit), completed(hit)], [true, 'answer 0'])
    clock.advance(100_000)
    assert.equal(isHit(await caller.create()), false)
  })
})
