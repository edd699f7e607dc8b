/**
 * Tests batches in the admin API: how operators see and cancel them, and how a suspension or deletion of the account affects
 * them.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import type OpenAI from 'openai'
import { reply, startModelServer } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { ADMIN_TOKEN, type Parley, startParley } from '../../parley.ts'
import { eventually } from '../../support/eventually.ts'
import { turnsOfList } from '../../support/large-batches.ts'
import { openaiOf } from '../../v1/official-client.ts'
import { CHAT, submitBatch } from '../../v1/submit-batch.ts'
import { granted, refused } from '../expect.ts'
import { adminOf, BASE } from './admin.ts'

const PRICED = {
  currency: 'EUR',
  models: {
    'gpt-5-mini': {
      targets: [{ upstream: 'openai', model: 'gpt-5-mini', price: { input: 1, output: 2 } }],
    },
  },
}

async function start(t: TestContext, settings: object = {}) {
  const models = await startModelServer({}, t)
  const parley = await startParley(t, { upstream: models.baseUrl, settings: { ...settings, ...PRICED } })
  t.after(() => models.release())
  return { parley, models, openai: openaiOf(parley, await parley.key()), admin: await adminOf(parley) }
}

const whenEnded = (t: TestContext, openai: OpenAI, { id }: OpenAI.Batch) =>
  eventually(
    () => openai.batches.retrieve(id),
    ({ status }) => ['completed', 'failed', 'expired', 'cancelled'].includes(status),
    { signal: t.signal },
  )

const download = (parley: Parley, id: string, which: 'output' | 'error') =>
  parley.request(`${BASE}/batches/${id}/${which}`, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } })

onEachStore(() => {
  test('while batches with many problems are listed, other work runs between them', async (t) => {
    const { parley, openai, admin } = await start(t)
    await whenEnded(t, openai, await submitBatch(openai, ['one']))
    assert.equal(await turnsOfList(t, parley, async () => granted(await admin.get('/batches'), 200)), 3)
  })

  test('operators list batches, and see the progress, cost and files of one', async (t) => {
    const { parley, models, openai, admin } = await start(t)
    models.script = (request) =>
      JSON.stringify(request.body).includes('bad') ? reply.status(400) : reply.text('Hi.')
    const first = await submitBatch(openai, ['one', 'bad'])
    await whenEnded(t, openai, first)
    models.script = () => reply.stall()
    const second = await submitBatch(openai, ['two'])
    await models.received(3)

    const { batches, more, next } = await admin.read('/batches?limit=1')
    assert.deepEqual([batches[0].batch_id, more, next], [second.id, true, second.id])
    const rest = await admin.read(`/batches?before=${next}`)
    assert.deepEqual([rest.batches[0].batch_id, rest.more, rest.next], [first.id, false, null])
    assert.deepEqual((await admin.read('/batches?account=other')).batches, [])
    const open = (await admin.read('/batches?open=true')).batches
    assert.deepEqual(
      open.map((one: { batch_id: string }) => one.batch_id),
      [second.id],
    )

    const ended = await admin.read(`/batches/${first.id}`)
    assert.deepEqual(
      [ended.account, ended.status, ended.endpoint, ended.lines, ended.metadata, ended.estimated_end],
      ['user_max', 'completed', CHAT, { total: 2, completed: 1, failed: 1 }, { team: 'a' }, null],
    )
    assert.ok(ended.lines_per_second > 0 && ended.ended_at >= ended.in_progress_at)
    assert.equal(ended.usage.cost, ended.usage.input_tokens + 2 * ended.usage.output_tokens)
    assert.deepEqual([ended.running.total, ended.input_file.filename], [0, 'in.jsonl'])
    for (const [which, customId] of [
      ['output', 'say one'],
      ['error', 'say bad'],
    ] as const) {
      const content = await download(parley, first.id, which)
      assert.equal(content.status, 200)
      assert.equal(JSON.parse(content.text).custom_id, customId)
      assert.equal(Number(content.headers.get('content-length')), ended[`${which}_file`].bytes)
      assert.match(content.headers.get('content-disposition') ?? '', /attachment; filename="batch_.*\.jsonl"/)
    }

    const running = await admin.read(`/batches/${second.id}`)
    const [line] = running.running.first
    assert.deepEqual(
      [running.status, running.running.total, line.custom_id, line.line],
      ['in_progress', 1, 'say two', 1],
    )
    const job = await admin.read(`/jobs/${line.job_id}`)
    assert.deepEqual(job.batch, { batch_id: second.id, custom_id: 'say two' })
    assert.equal(job.priority, 'low')

    const metrics = (await parley.get('/metrics')).text
    for (const line of [
      'parley_batches{status="in_progress"} 1',
      'parley_batches{status="validating"} 0',
      'parley_batch_lines_running 1',
      'parley_batches_total{status="completed"} 1',
      'parley_batches_total{status="expired"} 0',
      'parley_batch_lines_total{result="completed"} 1',
      'parley_batch_lines_total{result="failed"} 1',
    ])
      assert.ok(metrics.includes(`\n${line}\n`), line)
    models.release()
  })

  test('an operator cancels a batch, which the audit log records like each look at a file', async (t) => {
    const { parley, models, openai, admin } = await start(t)
    models.script = () => reply.stall()
    const batch = await submitBatch(openai, ['one', 'two'])
    await models.received(2)
    refused(await download(parley, batch.id, 'output'), 404)
    assert.deepEqual(await admin.run(`/batches/${batch.id}/cancel`), { status: 'cancelling' })
    const cancelled = await whenEnded(t, openai, batch)
    assert.deepEqual([cancelled.status, cancelled.request_counts?.failed], ['cancelled', 2])
    refused(await admin.post(`/batches/${batch.id}/cancel`), 409)
    const content = await download(parley, batch.id, 'error')
    const codes = content.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).error.code)
    assert.deepEqual(codes, ['batch_cancelled', 'batch_cancelled'])
    const another = batch.id.replace(/.$/, (digit) => (digit === '0' ? '1' : '0'))
    for (const id of [`${batch.id}x`, another, 'x']) {
      refused(await admin.get(`/batches/${id}`), 404)
      refused(await admin.post(`/batches/${id}/cancel`), 404)
    }
    const { acts } = await admin.read('/audit?account=user_max')
    assert.deepEqual(
      acts.map(({ what, target, outcome }: Record<string, string>) => [what, target, outcome]),
      [
        ['look at the error file', batch.id, 'shown'],
        ['cancel a batch', batch.id, 'refused: it had already ended'],
        ['cancel a batch', batch.id, 'cancelling'],
        ['look at the output file', batch.id, 'refused: there is no such file'],
      ],
    )
    models.release()
  })

  test('lines wait while their account is suspended, and the batch says so', async (t) => {
    // A batch uses at most half of `max_open_jobs`, which is one here, so the second line starts when the first has ended.
    const { models, openai, admin } = await start(t, { tiers: { user_max: { max_open_jobs: 2 } } })
    models.script = () => reply.stall()
    const batch = await submitBatch(openai, ['one', 'two'])
    await models.received(1)
    await admin.run('/accounts/user_max/suspend')
    models.script = () => reply.text('Hi.')
    models.release()
    const { waiting, lines } = await eventually(
      () => admin.read(`/batches/${batch.id}`),
      ({ waiting }) => waiting !== null,
      { signal: t.signal },
    )
    assert.match(waiting.message, /suspended/)
    assert.deepEqual([lines.completed, models.completions().length], [1, 1])
    await admin.run('/accounts/user_max/resume')
    const found = await whenEnded(t, openai, batch)
    assert.deepEqual(
      [found.status, found.errors, found.request_counts?.completed],
      ['completed', undefined, 2],
    )
  })

  test('deleting an account deletes its batches with their lines, files and events', async (t) => {
    const { parley, models, openai, admin } = await start(t)
    models.script = () => reply.text('Hi.')
    await parley.store.setWebhook('user_max', 'http://127.0.0.1:9/events')
    const key = await parley.key()
    const batch = await submitBatch(openaiOf(parley, key), ['one'])
    const { output_file_id = '' } = await whenEnded(t, openai, batch)
    models.script = () => reply.stall()
    const open = await submitBatch(openai, ['two'])
    await models.received(2)
    const [fileId, batchId, openId] = [output_file_id, batch.id, open.id].map((id) =>
      id.replace(/^\w+[-_](?=\w{8}-)/, ''),
    )
    granted(await admin.delete('/accounts/user_max?scrub=false'), 200)
    assert.deepEqual((await admin.read('/batches')).batches, [])
    assert.deepEqual(await parley.store.linesOfBatch(openId ?? ''), [])
    assert.equal(await parley.store.findCallback(batchId ?? ''), null)
    assert.equal(await parley.store.readPiece(fileId ?? '', 0), null)
    assert.deepEqual(await parley.store.quotaUse('user_max'), { openJobs: 0, storedBytes: 0 })
    models.release()
  })
})
