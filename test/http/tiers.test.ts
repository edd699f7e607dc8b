/** Tests the limits of each tier (SPEC §8), except batch sizes (batches.test.ts) and reads (reads.test.ts). */
import assert from 'node:assert/strict'
import test from 'node:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { DEFAULTS } from '../../src/config/settings.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { adminOf } from './admin/admin.ts'
import { openDatabase } from './database.ts'
import { completed, granted, invalid, refused } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const MODELS = ['gpt-5', 'gpt-5.2', 'gpt-5-mini', 'gpt-auto']
const FREE_MODELS = ['gpt-auto', 'gpt-5-mini']

const saying = (content: string, over = {}) => job({ ...over, messages: [{ role: 'user', content }] })
/** Returns the number of tokens of a conversation with one message, including those that the chat format adds. */
const tokensOf = (content: string) => countTokens(content) + 6

onEachStore(() => {
  for (const tier of Object.keys(DEFAULTS.tiers) as (keyof typeof DEFAULTS.tiers)[]) {
    const allowed = tier === 'user_free' ? FREE_MODELS : MODELS
    test(`8 ${tier} may use ${allowed.join(', ')}`, async (t) => {
      const { parley } = await startStage(t)
      const key = await parley.key(tier)
      for (const model of MODELS) {
        const answer = await parley.post(MESSAGES, job({ model }), key)
        if (allowed.includes(model)) completed(answer)
        else
          assert.match(refused(answer, 403).message, new RegExp(`tier ${tier} cannot use model ${model}\\.`))
      }
      const me = granted(await parley.get('/api/v1/me', key), 200)
      assert.deepEqual([...me.models].sort(), [...allowed].sort())
    })
  }

  test("a tier of one's own limits its accounts; one that is not configured cannot be chosen", async (t) => {
    const gold = { based_on: 'user_free', max_batch_jobs: 40, models: ['gpt-5'] }
    const { parley } = await startStage(t, { settings: { tiers: { gold } } })
    const admin = await adminOf(parley)
    const made = granted(await admin.post('/keys', { account: 'acme', tier: 'gold' }), 201)
    assert.equal(made.tier, 'gold')
    const me = granted(await parley.get('/api/v1/me', made.key), 200)
    assert.deepEqual([me.tier, me.models, me.limits.max_batch_jobs], ['gold', ['gpt-5'], 40])
    const elements = Array.from({ length: 41 }, (_, at) => saying(`${at}`, { model: 'gpt-5' }))
    assert.match(
      refused(await parley.post(`${MESSAGES}/batches`, elements, made.key), 403).message,
      /exceeded for gold: at most 40, and this batch has 41/,
    )
    granted(await parley.post(`${MESSAGES}/batches`, elements.slice(1), made.key), 202)
    const all = 'user_free, user_go, user_pro, user_max, gold'
    const unknown = { account: 'other', tier: 'silver' }
    invalid(await admin.post('/keys', unknown), `tier: must be one of ${all}`)
    invalid(await admin.post('/accounts/acme/tier', { tier: 'silver' }), `tier: must be one of ${all}`)
    granted(await admin.post('/accounts/acme/tier', { tier: 'user_go' }), 200)
  })

  test('creates_per_minute: 429 with Retry-After for further jobs of the account, but not for a repeated request', async (t) => {
    const { parley, clock } = await startStage(t, {
      settings: { tiers: { user_go: { creates_per_minute: 3, reads_per_minute: 1000 } } },
    })
    const [key, other] = [await parley.key('user_go', 'busy'), await parley.key('user_go', 'busy')]
    const once = { 'idempotency-key': 'once' }
    const [first, second, third, fourth] = [saying('1'), saying('2'), saying('3'), saying('4')]
    const kept = completed(await parley.post(MESSAGES, first, key, once))
    granted(await parley.post(`${MESSAGES}/batches`, [second, third], other), 202)
    const answer = await parley.post(MESSAGES, fourth, other)
    assert.equal(answer.headers.get('retry-after'), '60')
    const { message, details } = refused(answer, 429)
    assert.equal(message, 'Rate limit exceeded.')
    assert.match(
      details ?? '',
      /at most 3 jobs per minute \(tiers\.\*\.creates_per_minute\)\. Try again in 60 s/,
    )
    assert.equal(completed(await parley.post(MESSAGES, first, key, once)), kept)
    completed(await parley.post(MESSAGES, fourth, await parley.key('user_go', 'another')))
    clock.advance(60_000)
    completed(await parley.post(MESSAGES, fourth, key))
    const me = granted(await parley.get('/api/v1/me', key), 200)
    assert.equal(me.limits.creates_per_minute, 3)
    // A batch with more jobs than `creates_per_minute` may be created once a minute.
    clock.advance(60_000)
    const five = ['5', '6', '7', '8', '9'].map(saying)
    granted(await parley.post(`${MESSAGES}/batches`, five, key), 202)
    refused(await parley.post(`${MESSAGES}/batches`, five, key), 429)
  })

  test('8 403 for more input tokens than the tier allows names tier, limit and count', async (t) => {
    const text = 'The quick brown fox jumps over the lazy dog. '.repeat(20).trim()
    const limit = tokensOf(text)
    const { parley, models } = await startStage(t, {
      settings: { tiers: { user_free: { max_input_tokens: limit } } },
    })
    const key = await parley.key('user_free')
    assert.ok(text.length > limit, 'the bytes alone would be too many')
    completed(await parley.post(MESSAGES, saying(text), key))
    const answer = await parley.post(MESSAGES, saying(`${text} Again`), key)
    assert.deepEqual(answer.body, {
      success: false,
      message: `Input too large: tier user_free allows ${limit} input tokens, but this job has ${tokensOf(`${text} Again`)}.`,
    })
    refused(answer, 403)
    const all = { messages: Array(30).fill({ role: 'user', content: text }) }
    const { message } = refused(await parley.post(MESSAGES, job(all), key), 403)
    assert.match(message, new RegExp(`allows ${limit} input tokens, but this job has about \\d+\\.$`))
    const batch = await parley.post(`${MESSAGES}/batches`, [job(), saying(`${text} Again`)], key)
    refused(batch, 403)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 1)
    assert.equal(models.requests.length, 1)
  })

  test('8 text that looks like a special token is counted as text', async (t) => {
    const { parley } = await startStage(t, { settings: { tiers: { user_free: { max_input_tokens: 50 } } } })
    const key = await parley.key('user_free')
    completed(await parley.post(MESSAGES, saying('<|endoftext|> and <|im_start|>, plainly said'), key))
    refused(await parley.post(MESSAGES, saying('<|endoftext|>'.repeat(50)), key), 403)
  })

  test('8 gpt-auto picks by input tokens: up to 2000 gpt-5-mini, beyond gpt-5', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key('user_go')
    // Twelve messages have 153 tokens each, with those that the chat format adds; the last message fills the rest; 3 more
    // tokens start the answer.
    const message = (words: number) => ({ role: 'user', content: `a${' hello'.repeat(words)}` })
    const longest = [...Array(12).fill(message(149)), message(157)]
    const longer = [...Array(12).fill(message(149)), message(158)]
    const tokens = longest.reduce((sum, { content }) => sum + countTokens(content) + 3, 3)
    assert.equal(tokens, 2000)
    for (const messages of [[message(0)], longest, longer]) {
      completed(await parley.post(MESSAGES, job({ model: 'gpt-auto', messages }), key))
    }
    const asked = models.requests.map(({ body }) => body.model)
    assert.deepEqual(asked, ['gpt-5-mini', 'gpt-5-mini', 'gpt-5'])
  })

  test('8 gpt-auto never leaves the tier: user_free gets gpt-5-mini for any input', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key('user_free')
    completed(await parley.post(MESSAGES, saying(' hello'.repeat(5000), { model: 'gpt-auto' }), key))
    assert.equal(models.requests[0]?.body.model, 'gpt-5-mini')
  })

  test('8 gpt-auto falls to the next candidate when one fails in a way worth retrying', async (t) => {
    const { parley, models } = await startStage(t)
    models.script = ({ body }) => (body.model === 'gpt-5-mini' ? reply.status(503) : undefined)
    completed(await parley.post(MESSAGES, job({ model: 'gpt-auto' }), await parley.key('user_go')))
    const asked = models.requests.map(({ body }) => body.model)
    assert.deepEqual(asked, ['gpt-5-mini', 'gpt-5'])
  })

  test('8 more models are more settings: they are listed, allowed by tier, and sent to their targets', async (t) => {
    const { parley, models } = await startStage(t, {
      settings: { models: { 'gpt-6': { targets: [{ upstream: 'openai', model: 'gpt-6-2027' }] } } },
    })
    const free = await parley.key('user_free')
    invalid(await parley.post(MESSAGES, job({ model: 'gpt-4' }), free), /gpt-auto, gpt-6$/)
    refused(await parley.post(MESSAGES, job({ model: 'gpt-6' }), free), 403)
    completed(await parley.post(MESSAGES, job({ model: 'gpt-6' }), await parley.key('user_go')))
    assert.equal(models.requests[0]?.body.model, 'gpt-6-2027')
  })
})
