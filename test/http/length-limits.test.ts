/** Tests answers that end at a length limit, and model servers that silently drop a part of a conversation. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { COUNT_EVERY_MS } from '../../src/queue/context-shift.ts'
import { reply } from '../model-server.ts'
import { LlamaCpp } from '../model-servers/llama-cpp.ts'
import { onAnyStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { eventually } from '../support/eventually.ts'
import { adminOf } from './admin/admin.ts'
import { completed, failed, granted } from './expect.ts'
import { type Stage, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const asJson = { response_format: { format: 'json' } }

const create = async ({ parley }: Stage, over: Readonly<Record<string, unknown>>) =>
  parley.post(MESSAGES, job(over), await parley.key())

const metric = async ({ parley }: Stage, name: string) => {
  const { text } = await parley.get('/metrics')
  return text.split('\n').find((line) => line.startsWith(`${name}{`))
}

const linesOf = ({ parley }: Stage, words: string) =>
  parley.log.filter(({ message }) => message.includes(words))

onAnyStore(() => {
  test('3 failed, validation_error: JSON that is cut off fails at once, without a repair', async (t) => {
    const stage = await startStage(t, { script: () => reply.truncated('{"name":"An') })
    const { message, ...error } = failed(await create(stage, asJson))
    assert.match(message, /cut off.*finish_reason: length/)
    assert.deepEqual(error, {
      code: 'validation_error',
      errors: ['the answer was cut off at the length limit of the model'],
      raw_text: '{"name":"An',
    })
    assert.equal(stage.models.requests.length, 1)
    const [line] = linesOf(stage, 'job failed')
    assert.equal(line?.finish_reason, 'length')
    assert.equal(
      await metric(stage, 'parley_truncated_answers_total'),
      'parley_truncated_answers_total{upstream="openai",model="gpt-5-mini"} 1',
    )
  })

  test('3 failed, validation_error: a number or a repair that is cut off is no answer either', async (t) => {
    const stage = await startStage(t, { script: () => reply.truncated('12') })
    assert.match(failed(await create(stage, asJson)).message, /cut off/)
    assert.equal(stage.models.requests.length, 1)
    stage.models.script = (_request, index) => (index === 1 ? reply.text('No.') : reply.truncated('{"a'))
    const other = { ...asJson, messages: [{ role: 'user', content: 'another' }] }
    assert.match(failed(await create(stage, other)).message, /cut off/)
    assert.equal(stage.models.requests.length, 3)
  })

  test('2.2 JSON that was complete before the limit is an answer', async (t) => {
    const stage = await startStage(t, { script: () => reply.truncated('{"a":1} and so on'.slice(0, 7)) })
    assert.deepEqual(completed(await create(stage, asJson)), { a: 1 })
  })

  test('2.2 text that is cut off is delivered; the job, the log and a metric say so', async (t) => {
    const stage = await startStage(t, { script: () => reply.truncated('Once upon a') })
    const created = await create(stage, {})
    assert.equal(completed(created), 'Once upon a')
    const admin = await adminOf(stage.parley)
    const path = `/jobs/${created.body.data.job_id}`
    const { timeline } = granted(await admin.get(path), 200)
    const call = timeline.find(({ what }: { what: string }) => what === 'call')
    assert.match(call.detail, /answer, 200, .*cut off at the length limit/)
    const { receipt } = granted(await admin.get(`${path}/content`), 200)
    assert.equal(receipt.calls[0].finish_reason, 'length')
    const [line] = linesOf(stage, 'cut off')
    assert.deepEqual([line?.level, line?.finish_reason], ['warn', 'length'])
    assert.ok(await metric(stage, 'parley_truncated_answers_total'))
  })

  test('a conversation of which the server dropped the beginning is reported as a probable context shift', async (t) => {
    const llama = new LlamaCpp({ template: 'phi-3.5', contextTokens: 256 })
    const stage = await startStage(t, { script: llama.script })
    const shifts = () => linesOf(stage, 'context shift')
    const says = (content: string) => create(stage, { messages: [{ role: 'user', content }] })
    completed(await says('A short question.'))
    completed(await says(`Rule one. ${'early '.repeat(2_000)}late`))
    await eventually(
      async () => shifts(),
      (lines) => lines.length === 1,
    )
    const [line] = shifts()
    assert.equal(line?.target, 'openai/gpt-5-mini')
    assert.ok(Number(line?.prompt_tokens) < 256 && Number(line?.counted_tokens) > 512, JSON.stringify(line))
    assert.equal(
      await metric(stage, 'parley_context_shifts_total'),
      'parley_context_shifts_total{upstream="openai",model="gpt-5-mini"} 1',
    )
    // A text with many bytes but few tokens must not be taken for a dropped part.
    stage.clock.advance(COUNT_EVERY_MS)
    const tasks = async () => (await metric(stage, 'parley_cpu_task_seconds_count')) ?? ''
    const before = await tasks()
    completed(await says(' '.repeat(30_000)))
    await eventually(tasks, (now) => now !== before)
    assert.equal(shifts().length, 1)
  })
})
