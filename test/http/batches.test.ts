/** Tests requests that create several jobs (SPEC §4.1). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { DEFAULTS } from '../../src/config/settings.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { says, shareStage } from './caller.ts'
import { completed, failed, granted, invalid, refused } from './expect.ts'

const MAX_JOBS = { user_free: 2, user_go: 10, user_pro: 20, user_max: 30 }

onEachStore(async () => {
  const begin = await shareStage()

  test('4.1 202 with one identifier per job, in the order of the array', async (t) => {
    const { caller } = await begin(t)
    const words = ['one', 'two', 'three', 'four', 'five']
    const ids = await caller.enqueue(words.map((word) => says(word)))
    for (const [index, id] of ids.entries()) {
      assert.equal(completed(await caller.ended(id)), `echo: ${words[index]}`)
    }
    assert.deepEqual([...ids].sort(), ids)
  })

  test('4.1 202 at once, while the model server answers nothing', async (t) => {
    const { caller, models } = await begin(t, () => reply.stall())
    const id = await caller.enqueueOne()
    await models.received(1)
    assert.equal(granted(await caller.read(id), 200).status, 'assigned')
  })

  for (const tier of Object.keys(DEFAULTS.tiers) as (keyof typeof DEFAULTS.tiers)[]) {
    const most = MAX_JOBS[tier]
    test(`4.1 202 for ${most} jobs of ${tier}, and 403 for one more`, async (t) => {
      const { caller, models } = await begin(t, undefined, tier)
      const { message, details } = refused(await caller.batch(Array(most + 1).fill(job())), 403)
      assert.match(message, /^Maximum jobs per batch request exceeded for /)
      assert.match(message, new RegExp(`${tier}.*at most ${most}, and this batch has ${most + 1}`))
      if (tier === 'user_free') assert.match(message, /free user/)
      assert.equal(details, undefined)
      assert.deepEqual(await caller.jobIds(), [])
      const ids = await caller.enqueue(Array(most).fill(job()))
      await Promise.all(ids.map((id) => caller.ended(id)))
      assert.ok(models.requests.length <= most)
    })
  }

  const bad = job({ messages: [{ role: 'system', content: 'Be brief.' }] })
  const NOT_ARRAY = /^the body must be an array of job creation objects/
  for (const [name, bodies] of [
    [
      'one invalid job, and no job is created',
      [[[job(), job(), bad], 'jobs[2].messages: must contain at least one message whose role is user']],
    ],
    [
      'a batch with several wrong jobs names the first job that breaks a rule',
      [[[job(), job({ model: 'gpt-4' }), job({ model: 'gpt-3' })], /^jobs\[1\]\.model: must be one of /]],
    ],
    [
      'an empty batch, and for a body that is no array',
      [
        [[], 'the body must contain at least one job'],
        ...[job(), 'null', '"text"', '7'].map((body) => [body, NOT_ARRAY] as const),
        [[7], 'jobs[0]: must be an object'],
        [[job(), null], 'jobs[1]: must be an object'],
      ],
    ],
  ] as readonly [string, [unknown, string | RegExp][]][]) {
    test(`4.1 400 for ${name}`, async (t) => {
      const { caller, models } = await begin(t)
      for (const [body, details] of bodies) invalid(await caller.batch(body), details)
      assert.deepEqual([await caller.jobIds(), models.requests.length], [[], 0])
    })
  }

  test('4.1 403 for a model that the tier may not use, and no job is created', async (t) => {
    const { caller } = await begin(t, undefined, 'user_free')
    const { message, details } = refused(await caller.batch([job(), job({ model: 'gpt-5' })]), 403)
    assert.match(message, /user_free cannot use model gpt-5\./)
    assert.equal(details, undefined)
    assert.deepEqual(await caller.jobIds(), [])
  })

  test('4.1 rule 2: a job that fails is found by reading it, and the others complete', async (t) => {
    const { caller } = await begin(t, ({ text }) => (text.includes('bad') ? reply.status(400) : undefined))
    const [good, bad, better] = await caller.enqueue(['good', 'bad', 'better'].map((word) => says(word)))
    assert.equal(completed(await caller.ended(good)), 'echo: good')
    assert.equal(failed(await caller.ended(bad)).code, 'model_error')
    assert.equal(completed(await caller.ended(better)), 'echo: better')
  })
})
