/** Tests answers that end at a length limit, and model servers that silently drop a part of a conversation. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { COUNT_EVERY_MS } from '../../src/queue/context-shift.ts'
import { reply, type Script } from '../model-server.ts'
import { LlamaCpp } from '../model-servers/llama-cpp.ts'
import { onAnyStore } from '../on-each-store.ts'
import { eventually } from '../support/eventually.ts'
import { adminOf } from './admin/admin.ts'
import { idOf, startScene } from './caller.ts'
import { completed, failed, granted } from './expect.ts'

const asJson = { response_format: { format: 'json' } }
const LABELS = '{upstream="openai",model="gpt-5-mini"}'

async function start(t: TestContext, script: Script) {
  const scene = await startScene(t, { script })
  const metric = async (name: string) => {
    const { text } = await scene.parley.get('/metrics')
    return text.split('\n').find((line) => line.startsWith(`${name}{`))
  }
  const linesOf = (words: string) => scene.parley.log.filter(({ message }) => message.includes(words))
  return { ...scene, metric, linesOf }
}

onAnyStore(() => {
  test('3 failed, validation_error: JSON that is cut off fails at once, without a repair', async (t) => {
    const { caller, models, metric, linesOf } = await start(t, () => reply.truncated('{"name":"An'))
    const { message, ...error } = failed(await caller.create(asJson))
    assert.match(message, /cut off.*finish_reason: length/)
    assert.deepEqual(error, {
      code: 'validation_error',
      errors: ['the answer was cut off at the length limit of the model'],
      raw_text: '{"name":"An',
    })
    assert.equal(models.requests.length, 1)
    assert.equal(linesOf('job failed')[0]?.finish_reason, 'length')
    const name = 'parley_truncated_answers_total'
    assert.equal(await metric(name), `${name}${LABELS} 1`)
  })

  test('3 failed, validation_error: a number or a repair that is cut off is no answer either', async (t) => {
    const { caller, models } = await start(t, () => reply.truncated('12'))
    assert.match(failed(await caller.create(asJson)).message, /cut off/)
    assert.equal(models.requests.length, 1)
    models.script = (_request, index) => (index === 1 ? reply.text('No.') : reply.truncated('{"a'))
    assert.match(failed(await caller.ask('another', asJson)).message, /cut off/)
    assert.equal(models.requests.length, 3)
  })

  test('2.2 JSON that was complete before the limit is an answer', async (t) => {
    const { caller } = await start(t, () => reply.truncated('{"a":1}'))
    assert.deepEqual(completed(await caller.create(asJson)), { a: 1 })
  })

  test('2.2 text that is cut off is delivered; the job, the log and a metric say so', async (t) => {
    const { parley, caller, metric, linesOf } = await start(t, () => reply.truncated('Once upon a'))
    const created = await caller.create()
    assert.equal(completed(created), 'Once upon a')
    const admin = await adminOf(parley)
    const path = `/jobs/${idOf(created)}`
    const { timeline } = granted(await admin.get(path), 200)
    const call = timeline.find(({ what }: { what: string }) => what === 'call')
    assert.match(call.detail, /answer, 200, .*cut off at the length limit/)
    const { receipt } = granted(await admin.get(`${path}/content`), 200)
    assert.equal(receipt.calls[0].finish_reason, 'length')
    const [line] = linesOf('cut off')
    assert.deepEqual([line?.level, line?.finish_reason], ['warn', 'length'])
    assert.ok(await metric('parley_truncated_answers_total'))
  })

  test('a conversation of which the server dropped the beginning is reported as a probable context shift', async (t) => {
    const llama = new LlamaCpp({ template: 'phi-3.5', contextTokens: 256 })
    const { caller, clock, metric, linesOf } = await start(t, llama.script)
    const shifts = () => linesOf('context shift')
    completed(await caller.ask('A short question.'))
    completed(await caller.ask(`Rule one. ${'early '.repeat(2_000)}late`))
    const [line] = await eventually(shifts, (lines) => lines.length === 1)
    assert.equal(line?.target, 'openai/gpt-5-mini')
    assert.ok(Number(line?.prompt_tokens) < 256 && Number(line?.counted_tokens) > 512, JSON.stringify(line))
    const name = 'parley_context_shifts_total'
    assert.equal(await metric(name), `${name}${LABELS} 1`)
    // Parley must not suspect a dropped part because a text has many bytes but few tokens.
    clock.advance(COUNT_EVERY_MS)
    const tasks = async () => (await metric('parley_cpu_task_seconds_count')) ?? ''
    const before = await tasks()
    completed(await caller.ask(' '.repeat(30_000)))
    await eventually(tasks, (now) => now !== before)
    assert.equal(shifts().length, 1)
  })
})
