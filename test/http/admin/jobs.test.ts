/** Tests jobs in the admin API: searches, details, contents, and the actions cancel and delete, as callers see them. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { job, type Parley } from '../../parley.ts'
import { callerOf, idOf, idsOf, says } from '../caller.ts'
import { jobsStored, openDatabase } from '../database.ts'
import { completed, failed, granted, invalid, refused } from '../expect.ts'
import { shareAdminStage, startAdminScene } from './admin.ts'

const acts = (parley: Parley) => parley.log.filter(({ message }) => message === 'admin')

const CANCELLED = {
  code: 'cancelled',
  message: 'An operator of the service cancelled the job.',
  cancelled_by: 'operator',
}

/**
 * Nodes on Postgres poll the queue every second of real time, whatever the test's clock shows, so these operations do not
 * count.
 */
const POLLS = ['claim', 'queued', 'queuedSuspects', 'accountsOverBudget']

function recordOperations(store: Parley['store']): readonly string[] {
  const called: string[] = []
  const methods = store as unknown as Record<string, (...args: unknown[]) => unknown>
  for (const name of Object.keys(store)) {
    const method = methods[name]
    if (typeof method !== 'function') continue
    methods[name] = (...args) => {
      if (!POLLS.includes(name)) called.push(name)
      return method.apply(store, args)
    }
  }
  return called
}

onEachStore(() => {
  const begin = shareAdminStage()

  test('jobs are found by account, status, model and time, newest first', async (t) => {
    const { parley, admin, caller, clock } = await startAdminScene(t, {
      script: ({ text }) => {
        if (text.includes('stalls')) return reply.stall()
        return text.includes('fails') ? reply.status(400) : undefined
      },
    })
    const other = await callerOf(parley, 'user_go', 'other')
    const first = idOf(await caller.ask('one'))
    clock.advance(60_000)
    const second = idOf(await other.ask('fails', { model: 'gpt-5' }))
    const [third] = await caller.enqueue([says('stalls')])
    const now = clock.nowMs() / 1000
    for (const [query, expected] of [
      ['', [third, second, first]],
      ['?account=other', [second]],
      ['?status=completed', [first]],
      ['?status=failed&model=gpt-5', [second]],
      ['?status=failed&model=gpt-5.2', []],
      ['?status=assigned', [third]],
      ['?status=pending', []],
      [`?from=${now}`, [third, second]],
      [`?to=${now - 0.5}`, [first]],
    ] as const) {
      assert.deepEqual(idsOf(await admin.read(`/jobs${query}`)), expected, query)
    }

    const page = await admin.read('/jobs?limit=2')
    assert.deepEqual([page.more, page.complete, page.next], [true, true, second])
    const rest = await admin.read(`/jobs?limit=2&before=${page.next}`)
    assert.deepEqual([rest.jobs.length, rest.more, rest.next], [1, false, null])

    const [running, failed, done] = (await admin.read('/jobs')).jobs
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
    const { admin } = await begin(t)
    for (const [query, details] of [
      ['limit=0', /^limit: must be >= 1/],
      ['limit=201', /^limit: must be <= 200/],
      ['limit=ten', 'limit: must be an integer'],
      ['limit=1&limit=2', 'limit: must be an integer'],
      ['status=done', /^status: must be one of pending, /],
      ['before=x', 'before: must be a job ID'],
      ['from=yesterday', 'from: must be a number'],
      ['colour=red', 'colour: is not a known field'],
      ['account=%00', /^account: must match pattern/],
      ['model=%00', /^model: must match pattern/],
    ] as const) {
      invalid(await admin.get(`/jobs?${query}`), details)
    }
    assert.deepEqual(idsOf(await admin.read('/jobs?from=999999999999999&to=999999999999999')), [])
    for (const path of ['/jobs/x', `/jobs/${randomUUID()}`, `/jobs/${randomUUID()}/content`]) {
      refused(await admin.get(path), 404, { message: 'Job not found.' })
    }
  })

  test('a job’s page shows what happened to it, step by step', async (t) => {
    const answers = [() => reply.status(500), () => reply.json({ n: 'no' }), () => reply.json({ n: 1 })]
    const { admin, caller, clock } = await startAdminScene(t, {
      script: (_request, index) => answers[index]?.(),
    })
    const schema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
    const created = caller.create({ response_format: { format: 'json', schema } })
    clock.advance(Math.ceil(await clock.timerSet((ms) => ms >= 375 && ms <= 625 && !Number.isInteger(ms))))
    const data = await admin.read(`/jobs/${idOf(await created)}`)
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
    const raw = '{"n":12345678901234567890,"x":1e-400}'
    const { parley, admin, caller } = await startAdminScene(t, { script: () => reply.text(raw) })
    const secret = 'CANARY of a prompt \u0000'
    const id = idOf(await caller.ask(secret, { response_format: { format: 'json' } }))
    const answer = await admin.get(`/jobs/${id}/content`)
    const data = granted(answer, 200)
    assert.deepEqual(data.messages, [{ role: 'user', content: secret }])
    assert.deepEqual(data.response_format, { format: 'json' })
    assert.ok(answer.text.includes(`"result":{"response_content":${raw}}`), answer.text)
    assert.deepEqual([data.error, data.receipt.form, data.receipt.calls.length], [null, 'json', 1])
    const [{ roles, json_mode, instruction }] = data.receipt.calls
    assert.deepEqual([roles, json_mode], ['merged_system', 'instruction'])
    assert.match(instruction, /JSON/)
    await admin.read(`/jobs/${id}`)
    await admin.read('/jobs')
    refused(await admin.get(`/jobs/${randomUUID()}/content`), 404)
    const [line, ...others] = acts(parley)
    assert.deepEqual(others, [], 'a job without its contents is no such look')
    assert.deepEqual(line, {
      level: 'info',
      message: 'admin',
      what: 'look at contents',
      job_id: id,
      request_id: answer.headers.get('x-request-id'),
      from: '127.0.0.1',
    })
    assert.ok(!JSON.stringify(parley.log).includes('CANARY'))
  })

  test('a job that has not ended, one that failed, and one answered from the cache', async (t) => {
    const { admin, caller, models } = await begin(t)
    await caller.ask('again')
    const hit = idOf(await caller.ask('again'))
    const { cache_hit, target, timeline } = await admin.read(`/jobs/${hit}`)
    assert.deepEqual([cache_hit, target], [true, null])
    assert.equal(timeline.at(-1).detail, 'completed (cached response)')
    models.script = () => reply.status(400)
    const { result, error } = await admin.read(`/jobs/${idOf(await caller.ask('fails'))}/content`)
    assert.deepEqual([result, error.code], [null, 'model_error'])
    models.script = () => reply.stall()
    const [open] = await caller.enqueue([says('stalls')])
    const content = await admin.read(`/jobs/${open}/content`)
    assert.deepEqual([content.result, content.error, content.receipt], [null, null, null])
  })

  test('an expired job is gone for operators, too', async (t) => {
    const settings = { jobs: { retention_seconds: 60 } }
    const { admin, caller, clock } = await startAdminScene(t, { settings })
    const id = idOf(await caller.create({ message_cache_ttl: 180 }))
    clock.advance(180_000)
    assert.deepEqual(idsOf(await admin.read('/jobs')), [])
    for (const path of [`/jobs/${id}`, `/jobs/${id}/content`]) refused(await admin.get(path), 404)
  })

  test('a running job is cancelled: its call is cut off and its waiting caller answered, in five store operations', async (t) => {
    const { parley, caller, models, admin } = await startAdminScene(t, { script: () => reply.stall() })
    const waiting = caller.create()
    await models.received(1)
    // The call to the model server starts before the job is stored, so the test waits for the storage, too.
    const [id] = await jobsStored(t, await openDatabase(t, parley), 1)
    const operations = recordOperations(parley.store)
    assert.deepEqual(await admin.run(`/jobs/${id}/cancel`), { cancelled: true })
    assert.deepEqual(failed(await waiting), CANCELLED)
    const expected = ['addAuditEntry', 'cancelJob', 'takeCancelled', 'readEnded', 'endAuditEntry']
    assert.deepEqual(operations.toSorted(), expected.toSorted())
    assert.equal(await models.requests[0]?.ended, 'cut')
    assert.deepEqual(failed(await caller.read(id)), CANCELLED)
    const { jobs: left } = await admin.read('/overview')
    assert.deepEqual([left.running, left.assigned], [0, 0])
    const again = refused(await admin.post(`/jobs/${id}/cancel`), 409)
    assert.equal(again.message, 'The job has already finished.')
  })

  test('a queued job is cancelled, and never runs', async (t) => {
    const { caller, models, admin } = await startAdminScene(t, {
      script: () => reply.stall(),
      settings: { jobs: { concurrency: 1 } },
    })
    const ids = await caller.enqueue([job(), job({ model: 'gpt-5' })])
    await models.received(1)
    const [{ job_id: id }] = (await admin.read('/jobs?status=pending')).jobs
    await admin.run(`/jobs/${id}/cancel`)
    models.script = () => undefined
    models.release()
    completed(await caller.ended(ids.find((one) => one !== id)))
    assert.deepEqual(failed(await caller.read(id)), CANCELLED)
    assert.equal(models.requests.length, 1)
  })

  test('an ended job is deleted with its contents and its cached response', async (t) => {
    const { caller, models, admin } = await begin(t)
    const id = idOf(await caller.create())
    assert.deepEqual(granted(await admin.delete(`/jobs/${id}`), 200), { deleted: true })
    refused(await caller.read(id), 404)
    for (const path of [`/jobs/${id}`, `/jobs/${id}/content`]) refused(await admin.get(path), 404)
    refused(await admin.delete(`/jobs/${id}`), 404)
    const again = await caller.create()
    assert.equal(again.headers.get('x-cache'), null)
    assert.equal(models.requests.length, 2, 'no answer is kept of what was deleted')
    const unscrubbed = await admin.delete(`/jobs/${idOf(again)}?scrub=false`)
    assert.deepEqual(granted(unscrubbed, 200), { deleted: true })
  })

  test('a job that has not ended is not deleted', async (t) => {
    const { caller, models, admin } = await begin(t, () => reply.stall())
    const id = await caller.enqueueOne()
    await models.received(1)
    refused(await admin.delete(`/jobs/${id}`), 409, { details: /Cancel the job first/ })
    await admin.run(`/jobs/${id}/cancel`)
    granted(await admin.delete(`/jobs/${id}`), 200)
  })

  test('if the disk could not be scrubbed, the response says that the job is deleted, and how to continue', async (t) => {
    const { parley, caller, admin, account } = await begin(t)
    const id = idOf(await caller.create())
    t.mock.method(parley.store, 'scrub', () => Promise.reject(new Error('somebody reads')))
    const error = refused(await admin.delete(`/jobs/${id}`), 409)
    assert.equal(error.message, 'Deleted, but not scrubbed from the disk.')
    assert.match(error.details ?? '', /^somebody reads\. .*parley scrub/)
    refused(await admin.get(`/jobs/${id}`), 404)
    const [entry] = (await admin.read(`/audit?account=${account}`)).acts
    assert.equal(entry.outcome, 'deleted, not scrubbed: somebody reads')
  })

  test('unknown jobs are not found, and invalid parameters are rejected by name', async (t) => {
    const { admin } = await begin(t)
    for (const id of [randomUUID(), 'x', '%00']) {
      refused(await admin.post(`/jobs/${id}/cancel`), 404)
      refused(await admin.delete(`/jobs/${id}`), 404)
    }
    const scrub = await admin.delete(`/jobs/${randomUUID()}?scrub=maybe`)
    invalid(scrub, 'scrub: must be one of true, false')
  })
})
