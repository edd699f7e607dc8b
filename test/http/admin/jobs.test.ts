/** Tests jobs in the admin API: searches, details and contents. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { type Answer, job, type Parley } from '../../parley.ts'
import { enqueued, granted, invalid, refused } from '../expect.ts'
import { type StageOptions, startStage } from '../stage.ts'
import { adminOf } from './admin.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'

async function start(t: { after(end: () => unknown): void }, options: StageOptions = {}) {
  const stage = await startStage(t, options)
  return { ...stage, admin: await adminOf(stage.parley), key: await stage.parley.key() }
}

const idOf = ({ body }: Answer): string => body.data.job_id
const idsOf = (answer: Answer): string[] =>
  granted(answer, 200).jobs.map(({ job_id }: { job_id: string }) => job_id)

const says = (content: string, over: object = {}) => job({ messages: [{ role: 'user', content }], ...over })

/** Returns the log lines about admin actions. */
const acts = (parley: Parley) => parley.log.filter(({ message }) => message === 'admin')

onEachStore(() => {
  test('jobs are found by account, status, model and time, newest first', async (t) => {
    const { parley, admin, key, models, clock } = await start(t)
    models.script = (request) => {
      const said = JSON.stringify(request.body.messages)
      if (said.includes('stalls')) return reply.stall()
      return said.includes('fails') ? reply.status(400) : undefined
    }
    const other = await parley.key('user_go', 'other')
    const first = idOf(await parley.post(MESSAGES, says('one'), key))
    clock.advance(60_000)
    const second = idOf(await parley.post(MESSAGES, says('fails', { model: 'gpt-5' }), other))
    const [third = ''] = enqueued(await parley.post(BATCHES, [says('stalls')], key), 1)
    assert.deepEqual(idsOf(await admin.get('/jobs')), [third, second, first])
    assert.deepEqual(idsOf(await admin.get('/jobs?account=other')), [second])
    assert.deepEqual(idsOf(await admin.get('/jobs?status=completed')), [first])
    assert.deepEqual(idsOf(await admin.get('/jobs?status=failed&model=gpt-5')), [second])
    assert.deepEqual(idsOf(await admin.get('/jobs?status=failed&model=gpt-5.2')), [])
    assert.deepEqual(idsOf(await admin.get('/jobs?status=assigned')), [third])
    assert.deepEqual(idsOf(await admin.get('/jobs?status=pending')), [])
    const now = clock.nowMs() / 1000
    assert.deepEqual(idsOf(await admin.get(`/jobs?from=${now}`)), [third, second])
    assert.deepEqual(idsOf(await admin.get(`/jobs?to=${now - 0.5}`)), [first])

    const page = granted(await admin.get('/jobs?limit=2'), 200)
    assert.deepEqual([page.more, page.complete, page.next], [true, true, second])
    const rest = granted(await admin.get(`/jobs?limit=2&before=${page.next}`), 200)
    assert.deepEqual([rest.jobs.length, rest.more, rest.next], [1, false, null])

    const [running, failed, done] = granted(await admin.get('/jobs'), 200).jobs
    assert.deepEqual(done, {
      job_id: first,
      account: 'user_max',
      tier: 'user_max',
      model: 'gpt-5-mini',
      status: 'completed',
      created_at: now - 60,
      claimed_at: now - 60,
      settled_at: now - 60,
      attempts: 1,
      error_code: null,
      target: 'openai/gpt-5-mini',
      input_tokens: done.input_tokens,
      output_tokens: done.output_tokens,
      cache_hit: false,
      callback: null,
    })
    assert.ok(done.input_tokens > 0 && done.output_tokens > 0)
    assert.deepEqual([failed.error_code, failed.account, failed.tier], ['model_error', 'other', 'user_go'])
    assert.deepEqual([running.settled_at, running.input_tokens, running.target], [null, null, null])
  })

  test('a search with an invalid parameter is rejected by name', async (t) => {
    const { admin } = await start(t)
    invalid(await admin.get('/jobs?limit=0'), /^limit: must be >= 1/)
    invalid(await admin.get('/jobs?limit=201'), /^limit: must be <= 200/)
    invalid(await admin.get('/jobs?limit=ten'), 'limit: must be an integer')
    invalid(await admin.get('/jobs?limit=1&limit=2'), 'limit: must be an integer')
    invalid(await admin.get('/jobs?status=done'), /^status: must be one of pending, /)
    invalid(await admin.get('/jobs?before=x'), 'before: must be a job ID')
    invalid(await admin.get('/jobs?from=yesterday'), 'from: must be a number')
    invalid(await admin.get('/jobs?colour=red'), 'colour: is not a known field')
    invalid(await admin.get('/jobs?account=%00'), /^account: must match pattern/)
    invalid(await admin.get('/jobs?model=%00'), /^model: must match pattern/)
    assert.deepEqual(idsOf(await admin.get('/jobs?from=999999999999999&to=999999999999999')), [])
    for (const path of ['/jobs/x', `/jobs/${randomUUID()}`, `/jobs/${randomUUID()}/content`]) {
      assert.equal(refused(await admin.get(path), 404).message, 'Job not found.')
    }
  })

  test('a job’s page shows what happened to it, step by step', async (t) => {
    const { parley, admin, key, models, clock } = await start(t)
    const schema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
    const answers = [() => reply.status(500), () => reply.json({ n: 'no' }), () => reply.json({ n: 1 })]
    models.script = (_request, index) => answers[index]?.()
    const wanted = says('count', { response_format: { format: 'json', schema } })
    const created = parley.post(MESSAGES, wanted, key)
    clock.advance(Math.ceil(await clock.timerSet((ms) => ms >= 375 && ms <= 625 && !Number.isInteger(ms))))
    const id = idOf(await created)
    const data = granted(await admin.get(`/jobs/${id}`), 200)
    assert.deepEqual([data.response_format, data.deaths, data.callback], ['json with schema', 0, null])
    const timeline = data.timeline.map(({ what, detail }: { what: string; detail: string }) => [what, detail])
    assert.deepEqual(timeline, [
      ['accepted', null],
      ['assigned', 'attempt 1'],
      ['call', 'openai/gpt-5-mini: trouble, 500, 0 ms'],
      ['call', 'openai/gpt-5-mini: answer, 200, 0 ms'],
      ['call', 'openai/gpt-5-mini: answer, 200, 0 ms'],
      ['settled', 'completed'],
    ])
    const times = data.timeline.map(({ at }: { at: number }) => at)
    assert.deepEqual(times, times.toSorted())
    assert.ok(times[3] > times[2], 'the pause shows')
  })

  test('the contents are returned as stored, and each access is logged without them', async (t) => {
    const { parley, admin, key, models } = await start(t)
    const raw = '{"n":12345678901234567890,"x":1e-400}'
    models.script = () => reply.text(raw)
    const secret = 'CANARY of a prompt \u0000'
    const id = idOf(await parley.post(MESSAGES, says(secret, { response_format: { format: 'json' } }), key))
    const answer = await admin.get(`/jobs/${id}/content`)
    const data = granted(answer, 200)
    assert.deepEqual(data.messages, [{ role: 'user', content: secret }])
    assert.deepEqual(data.response_format, { format: 'json' })
    assert.ok(answer.text.includes(`"result":{"response_content":${raw}}`), answer.text)
    assert.deepEqual([data.error, data.receipt.form, data.receipt.calls.length], [null, 'json', 1])
    const [{ roles, json_mode, instruction }] = data.receipt.calls
    assert.deepEqual([roles, json_mode], ['merged_system', 'instruction'])
    assert.match(instruction, /JSON/)
    const [line, ...others] = acts(parley)
    assert.deepEqual(others, [])
    assert.deepEqual(line, {
      level: 'info',
      message: 'admin',
      what: 'look at contents',
      job_id: id,
      request_id: answer.headers.get('x-request-id'),
      from: '127.0.0.1',
    })
    granted(await admin.get(`/jobs/${id}`), 200)
    granted(await admin.get('/jobs'), 200)
    refused(await admin.get(`/jobs/${randomUUID()}/content`), 404)
    assert.equal(acts(parley).length, 1, 'a job without its contents is no such look')
    assert.ok(!JSON.stringify(parley.log).includes('CANARY'))
  })

  test('a job that has not ended, one that failed, and one answered from the cache', async (t) => {
    const { parley, admin, key, models } = await start(t)
    const repeated = says('again')
    await parley.post(MESSAGES, repeated, key)
    const hit = idOf(await parley.post(MESSAGES, repeated, key))
    const kept = granted(await admin.get(`/jobs/${hit}`), 200)
    assert.deepEqual([kept.cache_hit, kept.target], [true, null])
    assert.equal(kept.timeline.at(-1).detail, 'completed (cached response)')
    models.script = () => reply.status(400)
    const wrong = idOf(await parley.post(MESSAGES, says('fails'), key))
    const failed = granted(await admin.get(`/jobs/${wrong}/content`), 200)
    assert.deepEqual([failed.result, failed.error.code], [null, 'model_error'])
    models.script = () => reply.stall()
    const [open = ''] = enqueued(await parley.post(BATCHES, [says('stalls')], key), 1)
    const content = granted(await admin.get(`/jobs/${open}/content`), 200)
    assert.deepEqual([content.result, content.error, content.receipt], [null, null, null])
  })

  test('an expired job is gone for operators, too', async (t) => {
    const { parley, admin, key, clock } = await start(t, { settings: { jobs: { retention_seconds: 60 } } })
    const id = idOf(await parley.post(MESSAGES, says('short', { message_cache_ttl: 180 }), key))
    clock.advance(180_000)
    assert.deepEqual(idsOf(await admin.get('/jobs')), [])
    refused(await admin.get(`/jobs/${id}`), 404)
    refused(await admin.get(`/jobs/${id}/content`), 404)
  })
})
