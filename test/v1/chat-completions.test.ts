/** POST /v1/chat/completions and GET /v1/models, through OpenAI's own client. */
import assert from 'node:assert/strict'
import test from 'node:test'
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { openaiOf } from './official-client.ts'

const HELLO = { model: 'gpt-5-mini', messages: [{ role: 'user' as const, content: 'Hello' }] }

onEachStore(() => {
  test('a completion has every field that the client promises', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.text('Hi.') })
    const openai = openaiOf(parley, await parley.key())
    const completion: OpenAI.ChatCompletion = await openai.chat.completions.create(HELLO)
    assert.match(completion.id, /^chatcmpl-/)
    assert.equal(completion.object, 'chat.completion')
    assert.equal(completion.model, 'gpt-5-mini')
    assert.deepEqual(completion.choices, [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hi.', refusal: null },
        finish_reason: 'stop',
        logprobs: null,
      },
    ])
    const { prompt_tokens, completion_tokens, total_tokens } = completion.usage ?? assert.fail('no usage')
    assert.ok(prompt_tokens > 0 && total_tokens === prompt_tokens + completion_tokens)
  })

  test('parse() returns the object that a Zod schema describes', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.json({ name: 'Ada', born: 1815 }) })
    const openai = openaiOf(parley, await parley.key())
    const person = z.object({ name: z.string(), born: z.number() })
    const format = zodResponseFormat(person, 'person')
    const { choices } = await openai.chat.completions.parse({ ...HELLO, response_format: format })
    assert.deepEqual(choices[0]?.message.parsed, { name: 'Ada', born: 1815 })
  })

  test('models are those of the tier, also one whose name has a slash', async (t) => {
    const settings = { models: { 'org/model': { targets: [{ upstream: 'openai', model: 'x' }] } } }
    const { parley } = await startStage(t, { settings })
    const openai = openaiOf(parley, await parley.key('user_free'))
    const { data: listed } = await openai.models.list()
    assert.deepEqual(listed.map(({ id }) => id).sort(), ['gpt-5-mini', 'gpt-auto'])
    const max = openaiOf(parley, await parley.key('user_max'))
    assert.equal((await max.models.retrieve('org/model')).id, 'org/model')
    await assert.rejects(openai.models.retrieve('gpt-5'), OpenAI.NotFoundError)
  })
})
