/** Tests the Vercel AI SDK and LangChain, without streaming, configured only with the address and a key. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { generateObject, generateText } from 'ai'
import { z } from 'zod'
import { pendingResponsesAre, startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { shareStage } from './shared-stage.ts'

// The AI SDK prints a warning if a model supports no schema.
globalThis.AI_SDK_LOG_WARNINGS = false
after(() => {
  globalThis.AI_SDK_LOG_WARNINGS = undefined
})

const PERSON = z.object({ name: z.string(), born: z.number() })
const ADA = { name: 'Ada', born: 1815 }

/** docs/openai.md recommends this function. */
const fetchOnce: typeof fetch = async (...request) => {
  const response = await fetch(...request)
  if (response.headers.get('x-should-retry') !== 'false') return response
  return new Response(response.body, { status: 400, headers: response.headers })
}

onAnyStore(() => {
  const enter = shareStage()

  test('generateText and generateObject of the AI SDK', async () => {
    const { parley, models, key } = await enter(() => reply.text('Hi.'))
    const settings = { name: 'parley', baseURL: `${parley.url}/v1`, apiKey: key }
    const model = createOpenAICompatible({ ...settings, supportsStructuredOutputs: true })('gpt-5-mini')
    const { text, finishReason, usage } = await generateText({ model, system: 'Be short.', prompt: 'Hello' })
    assert.deepEqual([text, finishReason], ['Hi.', 'stop'])
    assert.ok((usage.inputTokens ?? 0) > 0)
    models.script = () => reply.json(ADA)
    const { object } = await generateObject({ model, schema: PERSON, prompt: 'Who?' })
    assert.deepEqual(object, ADA)
    const loose = createOpenAICompatible(settings)('gpt-5-mini')
    assert.deepEqual((await generateObject({ model: loose, schema: PERSON, prompt: 'Who?' })).object, ADA)
  })

  test('ChatOpenAI of LangChain, also with structured output', async () => {
    const { parley, models, key } = await enter(() => reply.text('Hi.'))
    const chat = new ChatOpenAI({
      model: 'gpt-5-mini',
      temperature: 0.5,
      apiKey: key,
      configuration: { baseURL: `${parley.url}/v1` },
    })
    assert.equal((await chat.invoke('Hello')).content, 'Hi.')
    const answer = await chat.invoke([
      ['system', 'Be short.'],
      ['human', 'Hello'],
      ['assistant', 'Hi.'],
      ['human', 'Again'],
    ])
    assert.equal(answer.content, 'Hi.')
    models.script = () => reply.json(ADA)
    const structured = chat.withStructuredOutput(PERSON, { method: 'jsonSchema' })
    assert.deepEqual(await structured.invoke('Who?'), ADA)
  })

  test('with the function of docs/openai.md, neither framework repeats a request whose job failed, but both wait on', async (t) => {
    const { parley, models, clock } = await startStage(t)
    const apiKey = await parley.key()
    const baseURL = `${parley.url}/v1`
    const sdk = createOpenAICompatible({ name: 'parley', baseURL, apiKey, fetch: fetchOnce })('gpt-5-mini')
    const chat = new ChatOpenAI({ model: 'gpt-5-mini', apiKey, configuration: { baseURL, fetch: fetchOnce } })
    for (const ask of [
      async (prompt: string) => (await generateText({ model: sdk, prompt })).text,
      async (prompt: string) => (await chat.invoke(prompt)).content,
    ]) {
      models.script = () => reply.status(400)
      await assert.rejects(ask('This fails.'), /did not return an answer/)
      models.script = () => reply.stall()
      const late = ask('This takes long.')
      await pendingResponsesAre(t, parley, 1)
      clock.advance(280_000)
      models.script = () => undefined
      models.release()
      assert.equal(await late, 'echo: This takes long.')
    }
    const jobs = await parley.get('/api/v1/messages', apiKey)
    assert.equal(jobs.body.data.jobs.length, 4)
  })

  test("an answer of the client's own is accepted as a message of the next request", async () => {
    const { openai, models } = await enter()
    const messages: Parameters<typeof openai.chat.completions.create>[0]['messages'] = [
      { role: 'developer', content: 'Be short.' },
      { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
    ]
    const { choices } = await openai.chat.completions.parse({ model: 'gpt-5-mini', messages })
    const [choice] = choices
    if (choice) messages.push(choice.message)
    messages.push({ role: 'user', content: 'Again' })
    await openai.chat.completions.create({ model: 'gpt-5-mini', messages })
    assert.equal(models.requests.at(-1)?.body.messages.length, 4)
  })
})
