/** Tests what callers and operators read of a model server's errors, in each shape that model servers send. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN } from '../parley.ts'
import { idOf, shareStage, startScene } from './caller.ts'
import { completed, failed } from './expect.ts'

const OPENROUTER = {
  code: 422,
  message: 'Provider returned error',
  metadata: { provider_name: 'Moonshot', raw: '{"error":{"message":"Invalid penalty."}}' },
}
const vllm = (field: string, msg: string) => ({ detail: [{ loc: ['body', field], msg }] })

const SHAPES: readonly (readonly [server: string, body: unknown, words: string])[] = [
  ['OpenAI', { error: { message: 'Model not loaded.', code: 'no_model' } }, 'Model not loaded.'],
  ['FastAPI', { detail: 'Not a model.' }, 'Not a model.'],
  ['vLLM', vllm('max_tokens', 'Input should be > 0'), 'body.max_tokens: Input should be > 0'],
  ['Ollama', { error: 'model "x" not found' }, 'model "x" not found'],
  ['Mistral', { object: 'error', message: vllm('stop', 'Field required') }, 'body.stop: Field required'],
  ['Google', [{ error: { code: 400, message: 'Bad model.' } }], 'Bad model.'],
  ['OpenRouter', { error: OPENROUTER }, 'Invalid penalty.'],
  ['plain text', 'unknown route', 'unknown route'],
]

onEachStore(async () => {
  const begin = await shareStage()

  test('7 the words of a model server reach the caller, whatever shape they come in', async (t) => {
    const { caller, models } = await begin(t)
    for (const [server, body, words] of SHAPES) {
      models.script = () => reply.status(422, { body })
      const { code, upstream_status, upstream_message } = failed(await caller.ask(server))
      assert.deepEqual([code, upstream_status, upstream_message], ['model_error', 422, words])
    }
  })

  test('a failed call is logged with its job and its code, and without the words, which may quote the conversation', async (t) => {
    const error = { message: 'CANARY', code: 'context_length_exceeded' }
    const { parley, caller } = await startScene(t, {
      script: () => reply.status(400, { body: { error } }),
    })
    const answer = await caller.ask('a')
    failed(answer)
    const [line, ...others] = parley.log.filter(({ message }) => message === 'call failed')
    assert.deepEqual(others, [])
    const expected = {
      level: 'warn',
      job_id: idOf(answer),
      upstream: 'openai',
      upstream_model: 'gpt-5-mini',
      upstream_status: 400,
      code: 'context_length_exceeded',
      connection: null,
    }
    assert.deepEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, line?.[name]])), expected)
    assert.ok(!JSON.stringify(parley.log).includes('CANARY'))
  })

  test('7 strings of upstreams.NAME.body are masked in what a model server echoes, but not in answers', async (t) => {
    const [plain, odd, listed] = ['tenant-CANARY1', 'q"uo\\te/ä CANARY2 \u{1F600}', 'listed-CANARY3']
    const body = { user: plain, extra: { config: odd, all: [listed, `${listed}-longer`] }, seed: 7 }
    const { parley, caller, models } = await startScene(t, { settings: { upstreams: { openai: { body } } } })
    const ascii = (text: string) =>
      text.replace(/[^\0-\x7f]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
    const ways: readonly ((sent: string) => unknown)[] = [
      (sent) => ({ error: { message: `Invalid request: ${sent}`, code: plain } }),
      (sent) => sent.replace('{', 'Invalid request: {'),
      (sent) => `Invalid request: ${ascii(JSON.stringify(sent))}`,
      (sent) => ({ detail: [{ loc: ['body'], msg: ascii(JSON.stringify(ascii(sent))) }] }),
      (sent) => `Invalid request: ${sent.replaceAll('/', '\\/')}`,
      (sent) => ({ error: `Invalid request: ${encodeURIComponent(sent)}` }),
      (sent) => ({ error: `Invalid request: ${sent.slice(0, sent.indexOf('CANARY1') + 3)}` }),
    ]
    const asAdmin = { authorization: `Bearer ${ADMIN_TOKEN}` }
    for (const way of ways) {
      const said: string[] = []
      models.script = (request) => {
        const echo = way(request.text)
        said.push(JSON.stringify(echo))
        return reply.status(400, { body: echo })
      }
      const created = await caller.ask('a')
      const { upstream_status, upstream_message } = failed(created)
      assert.equal(upstream_status, 400)
      assert.match(String(upstream_message), /\*\*\*/)
      assert.match(String(said), /CAN/)
      const id = idOf(created)
      const places = [
        created,
        await caller.read(id),
        await parley.get(`/admin/api/jobs/${id}`, undefined, asAdmin),
        await parley.get(`/admin/api/jobs/${id}/content`, undefined, asAdmin),
        { text: JSON.stringify(parley.log) },
      ]
      for (const { text } of places) assert.doesNotMatch(text, /CAN|tenant|listed|q.{1,12}uo/)
    }
    models.script = (request) => reply.text(`You sent ${request.text}`)
    const answer = completed(await caller.ask('b'))
    assert.equal(answer, `You sent ${models.completions().at(-1)?.text}`)
    for (const secret of [plain, listed]) assert.ok(answer.includes(secret))
  })

  test('2.2 content in parts is read, without what the model thought', async (t) => {
    const content = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
      { type: 'text', text: 'The ' },
      { type: 'text', text: 'answer.' },
    ]
    const choices = [{ message: { role: 'assistant', content }, finish_reason: 'stop' }]
    const { caller } = await begin(t, () => reply.notACompletion({ choices }))
    assert.equal(completed(await caller.create()), 'The answer.')
  })
})
