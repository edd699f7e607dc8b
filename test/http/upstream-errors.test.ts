/** What callers and operators read of a model server's errors, in each shape that servers send. */
import assert from 'node:assert/strict'
import test from 'node:test'
import type { Fields } from '../../src/telemetry/log.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
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

  test('a failed call is logged with its code, and without the words, which may quote the conversation', async (t) => {
    const { parley, models } = await startStage(t)
    const body = { error: { message: 'CANARY', code: 'context_length_exceeded' } }
    models.script = () => reply.status(400, { body })
    failed(await parley.post(MESSAGES, says('a'), await parley.key()))
    const [line, ...others] = parley.log.filter(({ message }) => message === 'call failed')
    assert.deepEqual(others, [])
    const { level, upstream, upstream_model, upstream_status, code, connection } = line as Fields
    assert.deepEqual(
      { level, upstream, upstream_model, upstream_status, code, connection },
      {
        level: 'warn',
        upstream: 'openai',
        upstream_model: 'gpt-5-mini',
        upstream_status: 400,
        code: 'context_length_exceeded',
        connection: null,
      },
    )
    assert.ok(!JSON.stringify(parley.log).includes('CANARY'))
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
