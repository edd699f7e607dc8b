/** Tests the limits of each tier (SPEC §8), except batch sizes (creates.test.ts) and reads (reads.test.ts). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { DEFAULTS } from '../../src/config/settings.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { adminOf } from './admin/admin.ts'
import { callerOf, idOf, says, shareStage, startScene } from './caller.ts'
import { completed, granted, invalid, refused } from './expect.ts'
import { startStage } from './stage.ts'

const MODELS = ['gpt-5', 'gpt-5.2', 'gpt-5-mini', 'gpt-auto']
const FREE_MODELS = ['gpt-auto', 'gpt-5-mini']

/** The chat format adds six tokens to a conversation with one message. */
const tokensOf = (content: string) => countTokens(content) + 6

onEachStore(() => {
  const begin = shareStage()

  for (const tier of Object.keys(DEFAULTS.tiers)) {
    const allowed = tier === 'user_free' ? FREE_MODELS : MODELS
    test(`8 ${tier} may use ${allowed.join(', ')}; 403 for others, and no job is created`, async (t) => {
      const { caller } = await begin(t, undefined, tier)
      for (const model of MODELS) {
        if (allowed.includes(model)) {
          completed(await caller.create({ model }))
          continue
        }
        const message = `Insufficient permissions: tier ${tier} cannot use model ${model}.`
        for (const answer of [await caller.create({ model }), await caller.batch([job(), job({ model })])]) {
          refused(answer, 403, { message, details: null })
        }
      }
      assert.equal((await caller.jobIds()).length, allowed.length)
      assert.deepEqual((await caller.me()).models.toSorted(), allowed.toSorted())
    })
  }

  test("a tier of one's own limits its accounts; one that is not configured cannot be chosen", async (t) => {
    const gold = { based_on: 'user_free', max_batch_jobs: 40, models: ['gpt-5'] }
    const { parley } = await startStage(t, { settings: { tiers: { gold } } })
    const admin = await adminOf(parley)
    const made = granted(await admin.post('/keys', { account: 'acme', tier: 'gold' }), 201)
    assert.equal(made.tier, 'gold')
    const caller = await callerOf(parley, 'gold', 'acme')
    const { tier, models, limits } = await caller.me()
    assert.deepEqual([tier, models, limits.max_batch_jobs], ['gold', ['gpt-5'], 40])
    const elements = Array.from({ length: 41 }, (_, at) => says(`${at}`, { model: 'gpt-5' }))
    refused(await caller.batch(elements), 403, {
      message: /exceeded for gold: at most 40, and this batch has 41/,
    })
    granted(await caller.batch(elements.slice(1)), 202)
    const rule = 'tier: must be one of user_free, user_go, user_pro, user_max, gold'
    invalid(await admin.post('/keys', { account: 'other', tier: 'silver' }), rule)
    invalid(await admin.post('/accounts/acme/tier', { tier: 'silver' }), rule)
    granted(await admin.post('/accounts/acme/tier', { tier: 'user_go' }), 200)
  })

  test('creates_per_minute: 429 with Retry-After for further jobs of the account, but not for a repeated request', async (t) => {
    const { parley, caller, clock } = await startScene(t, {
      settings: { tiers: { user_go: { creates_per_minute: 3, reads_per_minute: 1000 } } },
      tier: 'user_go',
    })
    const other = await callerOf(parley, 'user_go')
    const once = { 'idempotency-key': 'once' }
    const id = idOf(await caller.ask('1', {}, once))
    await other.enqueue([says('2'), says('3')])
    const answer = await other.ask('4')
    assert.equal(answer.headers.get('retry-after'), '60')
    const { message, details } = refused(answer, 429)
    assert.equal(message, 'Rate limit exceeded.')
    const rule = /at most 3 jobs per minute \(tiers\.\*\.creates_per_minute\)\. Try again in 60 s/
    assert.match(details ?? '', rule)
    assert.equal(idOf(await caller.ask('1', {}, once)), id)
    completed(await (await callerOf(parley, 'user_go', 'another')).ask('4'))
    clock.advance(60_000)
    completed(await caller.ask('4'))
    assert.equal((await caller.me()).limits.creates_per_minute, 3)
    // A batch with more jobs than `creates_per_minute` may be created once a minute.
    clock.advance(60_000)
    const five = ['5', '6', '7', '8', '9'].map((content) => says(content))
    await caller.enqueue(five)
    refused(await caller.batch(five), 429)
  })

  test('8 403 for more input tokens than the tier allows names tier, limit and count', async (t) => {
    const text = 'The quick brown fox jumps over the lazy dog. '.repeat(20).trim()
    const limit = tokensOf(text)
    const { caller, models } = await startScene(t, {
      settings: { tiers: { user_free: { max_input_tokens: limit } } },
      tier: 'user_free',
    })
    assert.ok(text.length > limit, 'the bytes alone would be too many')
    completed(await caller.ask(text))
    const longer = says(`${text} Again`)
    const allowed = `Input too large: tier user_free allows ${limit} input tokens`
    refused(await caller.create({ ...longer }), 403, {
      message: `${allowed}, but this job has ${tokensOf(`${text} Again`)}.`,
      details: null,
    })
    const many = await caller.create({ messages: Array(30).fill({ role: 'user', content: text }) })
    refused(many, 403, { message: new RegExp(`^${allowed}, but this job has about \\d+\\.$`) })
    refused(await caller.batch([job(), longer]), 403)
    assert.deepEqual([(await caller.jobIds()).length, models.requests.length], [1, 1])
  })

  test('8 text that looks like a special token is counted as text', async (t) => {
    const { caller } = await startScene(t, {
      settings: { tiers: { user_free: { max_input_tokens: 50, reads_per_minute: 1000 } } },
      tier: 'user_free',
    })
    completed(await caller.ask('<|endoftext|> and <|im_start|>, plainly said'))
    refused(await caller.ask('<|endoftext|>'.repeat(50)), 403)
  })

  test('8 gpt-auto picks by input tokens: up to 2000 gpt-5-mini, beyond gpt-5', async (t) => {
    const { caller, models } = await begin(t, undefined, 'user_go')
    // Twelve messages have 153 tokens each, with those that the chat format adds. The last message fills the rest. Three more
    // tokens start the answer.
    const message = (words: number) => ({ role: 'user', content: `a${' hello'.repeat(words)}` })
    const longest = [...Array(12).fill(message(149)), message(157)]
    const longer = [...Array(12).fill(message(149)), message(158)]
    const tokens = longest.reduce((sum, { content }) => sum + countTokens(content) + 3, 3)
    assert.equal(tokens, 2000)
    for (const messages of [[message(0)], longest, longer]) {
      completed(await caller.create({ model: 'gpt-auto', messages }))
    }
    const asked = models.requests.map(({ body }) => body.model)
    assert.deepEqual(asked, ['gpt-5-mini', 'gpt-5-mini', 'gpt-5'])
  })

  test('8 gpt-auto never leaves the tier: user_free gets gpt-5-mini for any input', async (t) => {
    const { caller, models } = await begin(t, undefined, 'user_free')
    completed(await caller.ask(' hello'.repeat(5000), { model: 'gpt-auto' }))
    assert.equal(models.requests[0]?.body.model, 'gpt-5-mini')
  })

  test('8 gpt-auto falls to the next candidate when one fails in a way worth retrying', async (t) => {
    const { caller, models } = await startScene(t, {
      script: ({ body }) => (body.model === 'gpt-5-mini' ? reply.status(503) : undefined),
      tier: 'user_go',
    })
    completed(await caller.create({ model: 'gpt-auto' }))
    const asked = models.requests.map(({ body }) => body.model)
    assert.deepEqual(asked, ['gpt-5-mini', 'gpt-5'])
  })

  test('8 more models are more settings: they are listed, allowed by tier, and sent to their targets', async (t) => {
    const { parley, caller, models } = await startScene(t, {
      settings: { models: { 'gpt-6': { targets: [{ upstream: 'openai', model: 'gpt-6-2027' }] } } },
      tier: 'user_free',
    })
    invalid(await caller.create({ model: 'gpt-4' }), /gpt-auto, gpt-6$/)
    refused(await caller.create({ model: 'gpt-6' }), 403)
    completed(await (await callerOf(parley, 'user_go')).create({ model: 'gpt-6' }))
    assert.equal(models.requests[0]?.body.model, 'gpt-6-2027')
  })
})
