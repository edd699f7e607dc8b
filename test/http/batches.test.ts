/** Tests requests that create several jobs (SPEC §4.1). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { DEFAULTS } from '../../src/config/settings.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { openDatabase } from './database.ts'
import { completed, enqueued, failed, granted, invalid, refused } from './expect.ts'
import { startStage } from './stage.ts'

const BATCHES = '/api/v1/messages/batches'
const MAX_JOBS = { user_free: 2, user_go: 10, user_pro: 20, user_max: 30 }

const saying = (content: string) => job({ messages: [{ role: 'user', content }] })

onEachStore(() => {
  test('4.1 202 with one identifier per job, in the order of the array', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const words = ['one', 'two', 'three', 'four', 'five']
    const ids = enqueued(await parley.post(BATCHES, words.map(saying), key), 5)
    for (const [index, id] of ids.entries()) {
      assert.equal(completed(await parley.ended(id, key)), `echo: ${words[index]}`)
    }
    assert.deepEqual([...ids].sort(), ids)
  })

  test('4.1 202 at once, while the model server answers nothing', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const [id] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await models.received(1)
    const data = granted(await parley.get(`/api/v1/messages/${id}`, key), 200)
    assert.equal(data.status, 'assigned')
  })

  for (const tier of Object.keys(DEFAULTS.tiers) as (keyof typeof DEFAULTS.tiers)[]) {
    const most = MAX_JOBS[tier]
    test(`4.1 202 for ${most} jobs of ${tier}, and 403 for one more`, async (t) => {
      const { parley, models } = await startStage(t)
      const key = await parley.key(tier)
      const over = await parley.post(BATCHES, Array(most + 1).fill(job()), key)
      const { message, details } = refused(over, 403)
      assert.match(message, /^Maximum jobs per batch request exceeded for /)
      assert.match(message, new RegExp(`${tier}.*at most ${most}, and this batch has ${most + 1}`))
      if (tier === 'user_free') assert.match(message, /free user/)
      assert.equal(details, undefined)
      assert.equal(await (await openDatabase(t, parley)).jobCount(), 0)
      const ids = enqueued(await parley.post(BATCHES, Array(most).fill(job()), key), most)
      await Promise.all(ids.map((id) => parley.ended(id, key)))
      assert.ok(models.requests.length <= most)
    })
  }

  test('4.1 400 for one invalid job, and no job is created', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key()
    const batch = [job(), job(), job({ messages: [{ role: 'system', content: 'Be brief.' }] })]
    invalid(
      await parley.post(BATCHES, batch, key),
      'jobs[2].messages: must contain at least one message whose role is user',
    )
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 0)
    assert.equal(models.requests.length, 0)
  })

  test('4.1 400 names the first job that breaks a rule', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const batch = [job(), job({ model: 'gpt-4' }), job({ model: 'gpt-3' })]
    invalid(await parley.post(BATCHES, batch, key), /^jobs\[1\]\.model: must be one of /)
  })

  test('4.1 400 for an empty batch, and for a body that is no array', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    invalid(await parley.post(BATCHES, [], key), 'the body must contain at least one job')
    for (const body of [job(), 'null', '"text"', '7']) {
      invalid(await parley.post(BATCHES, body, key), /^the body must be an array of job creation objects/)
    }
    invalid(await parley.post(BATCHES, [7], key), 'jobs[0]: must be an object')
    invalid(await parley.post(BATCHES, [job(), null], key), 'jobs[1]: must be an object')
  })

  test('4.1 403 for a model that the tier may not use, and no job is created', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key('user_free')
    const answer = await parley.post(BATCHES, [job(), job({ model: 'gpt-5' })], key)
    const { message, details } = refused(answer, 403)
    assert.match(message, /user_free cannot use model gpt-5\./)
    assert.equal(details, undefined)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 0)
  })

  test('4.1 401 before everything else', async (t) => {
    const { parley } = await startStage(t)
    refused(await parley.post(BATCHES, 'no JSON'), 401)
  })

  test('4.1 500 says nothing of its cause, and the log does', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    parley.store.accept = () => Promise.reject(new Error('a bug in the store'))
    const answer = await parley.post(BATCHES, [job()], key)
    assert.deepEqual(answer.body, { success: false, message: 'Internal server error.' })
    refused(answer, 500)
    const line = parley.log.find(({ level }) => level === 'error')
    assert.equal(line?.error, 'a bug in the store')
    assert.equal(line?.request_id, answer.headers.get('x-request-id'))
  })

  test('4.1 503 with Retry-After when the jobs cannot be stored, and none is created', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    parley.store.accept = () => Promise.reject(new StoreUnavailable('the disk is full'))
    const answer = await parley.post(BATCHES, [job(), job()], key)
    const { message, details } = refused(answer, 503)
    assert.equal(message, 'Service temporarily unavailable.')
    assert.match(details ?? '', /^Nothing was created/)
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 0)
  })

  test('4.1 rule 2: a job that fails is found by reading it, and the others complete', async (t) => {
    const { parley, models } = await startStage(t)
    models.script = ({ text }) => (text.includes('bad') ? reply.status(400) : undefined)
    const key = await parley.key()
    const ids = enqueued(await parley.post(BATCHES, ['good', 'bad', 'better'].map(saying), key), 3)
    const [good, bad, better] = await Promise.all(ids.map((id) => parley.ended(id, key)))
    assert.ok(good && bad && better)
    assert.equal(completed(good), 'echo: good')
    assert.equal(failed(bad).code, 'model_error')
    assert.equal(completed(better), 'echo: better')
  })

  test('4.1 rule 3: each job has its own callback', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const callback = (name: string) => ({
      callback_url: `https://example.com/${name}`,
      callback_headers: { 'X-Name': name },
      callback_payload: { name },
    })
    const batch = [job({ callback: callback('a') }), job(), job({ callback: callback('b') })]
    enqueued(await parley.post(BATCHES, batch, key), 3)
    const callbacks = await (await openDatabase(t, parley)).callbacks()
    assert.deepEqual(callbacks, [
      { url: 'https://example.com/a', headers: { 'X-Name': 'a' }, payloadJson: '{"name":"a"}' },
      null,
      { url: 'https://example.com/b', headers: { 'X-Name': 'b' }, payloadJson: '{"name":"b"}' },
    ])
  })
})
