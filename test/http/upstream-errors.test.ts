/** Tests what callers and operators read of a model server's errors, in each shape that model servers send. */
import assert from 'node:assert/strict'
import test from 'node:test'
import type { Fields } from '../../src/telemetry/log.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, job } from '../parley.ts'
import { completed, failed } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const says = (content: string) => job({ messages: [{ role: 'user', content }] })

const SHAPES: readonly (readonly [server: string, body: unknown, words: string])[] = [
  ['OpenAI', { error: { message: 'Model not loaded.', code: 'no_model' } }, 'Model not loaded.'],
  ['FastAPI', { detail: 'Not a model.' }, 'Not a model.'],
  [
    'vLLM',
    { detail: [{ loc: ['body', 'max_tokens'], msg: 'Input should be greater than 0' }] },
    'body.max_tokens: Input should be greater than 0',
  ],
  ['Ollama', { error: 'model "x" not found' }, 'model "x" not found'],
  [
    'Mistral',
    { object: 'error', message: { detail: [{ loc: ['body', 'stop'], msg: 'Field required' }] } },
    'body.stop: Field required',
  ],
  ['Google', [{ error: { code: 400, message: 'Bad model.' } }], 'Bad model.'],
  [
    'OpenRouter',
    {
      error: {
        code: 422,
        message: 'Provider returned error',
        metadata: { provider_name: 'Moonshot', raw: '{"error":{"message":"Invalid penalty."}}' },
      },
    },
    'Invalid penalty.',
  ],
  ['plain text', 'unknown route', 'unknown route'],
]

onEachStore(() => {
  test('7 the words of a model server reach the caller, whatever shape they come in', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key()
    for (const [server, body, words] of SHAPES) {
      models.script = () => reply.status(422, { body })
      const error = failed(await parley.post(MESSAGES, says(server), key))
      assert.deepEqual(
        [error.code, error.upstream_status, error.upstream_message],
        ['model_error', 422, words],
      )
    }
  })

  test('a failed call is logged with its job and its code, and without the words, which may quote the conversation', async (t) => {
    const { parley, models } = await startStage(t)
    const body = { error: { message: 'CANARY', code: 'context_length_exceeded' } }
    models.script = () => reply.status(400, { body })
    const answer = await parley.post(MESSAGES, says('a'), await parley.key())
    failed(answer)
    const [line, ...others] = parley.log.filter(({ message }) => message === 'call failed')
    assert.deepEqual(others, [])
    const { level, job_id, upstream, upstream_model, upstream_status, code, connection } = line as Fields
    assert.deepEqual(
      { level, job_id, upstream, upstream_model, upstream_status, code, connection },
      {
        level: 'warn',
        job_id: answer.body.data.job_id,
        upstream: 'openai',
        upstream_model: 'gpt-5-mini',
        upstream_status: 400,
        code: 'context_length_exceeded',
        connection: null,
      },
    )
    assert.ok(!JSON.stringify(parley.log).includes('CANARY'))
  })

  test('7 strings of upstreams.NAME.body are masked in what a model server echoes, but not in answers', async (t) => {
    const [plain, odd, listed] = ['tenant-CANARY1', 'q"uo\\te/ä CANARY2 \u{1F600}', 'listed-CANARY3']
    const body = { user: plain, extra: { config: odd, all: [listed, `${listed}-longer`] }, seed: 7 }
    const { parley, models } = await startStage(t, { settings: { upstreams: { openai: { body } } } })
    const key = await parley.key()
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
      const created = await parley.post(MESSAGES, says('a'), key)
      const error = failed(created)
      const id = created.body.data.job_id
      const places = [
        created.text,
        (await parley.get(`${MESSAGES}/${id}`, key)).text,
        (await parley.get(`/admin/api/jobs/${id}`, undefined, asAdmin)).text,
        (await parley.get(`/admin/api/jobs/${id}/content`, undefined, asAdmin)).text,
        JSON.stringify(parley.log),
      ]
      assert.equal(error.upstream_status, 400)
      assert.match(String(error.upstream_message), /\*\*\*/)
      assert.match(String(said), /CAN/)
      for (const place of places) assert.doesNotMatch(place, /CAN|tenant|listed|q.{1,12}uo/)
    }
    models.script = (request) => reply.text(`You sent ${request.text}`)
    const answer = completed(await parley.post(MESSAGES, says('b'), key))
    assert.equal(answer, `You sent ${models.completions().at(-1)?.text}`)
    for (const secret of [plain, listed]) assert.ok(answer.includes(secret))
  })

  test('2.2 content in parts is read, without what the model thought', async (t) => {
    const parts = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
      { type: 'text', text: 'The ' },
      { type: 'text', text: 'answer.' },
    ]
    const script = () =>
      reply.notACompletion({
        choices: [{ message: { role: 'assistant', content: parts }, finish_reason: 'stop' }],
      })
    const { parley } = await startStage(t, { script })
    assert.equal(completed(await parley.post(MESSAGES, says('a'), await parley.key())), 'The answer.')
  })
})
