/** Tests `complete_within`: a job fails at its deadline, whatever state it is in, and never starts later. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { isModelList, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job, type Parley } from '../parley.ts'
import { BATCHES, completions, MESSAGES, metric, ONE_SLOT, withContent } from '../support/outage.ts'
import { adminOf } from './admin/admin.ts'
import { completed, enqueued, failed, granted, invalid } from './expect.ts'
import { type Stage, startStage, stopAtOnce } from './stage.ts'

const ONE_CALL = { settings: ONE_SLOT, findsConcurrency: true }

const create = async (parley: Parley, key: string, body: ReturnType<typeof job>) => {
  const [id = ''] = enqueued(await parley.post(BATCHES, [body], key), 1)
  return id
}

function tooLate(answer: Answer): void {
  const message = 'The job did not finish before its deadline (complete_within).'
  assert.deepEqual(failed(answer), { code: 'deadline_exceeded', message })
}

/** Asserts that the job is still open a second before its deadline, and ends at the deadline. */
async function endsAtDeadline({ parley, clock }: Stage, key: string, id: string): Promise<void> {
  const admin = await adminOf(parley)
  const { deadline } = granted(await admin.get(`/jobs/${id}`), 200)
  clock.advance(deadline * 1000 - clock.nowMs() - 1000)
  for (let reads = 0; reads < 20; reads++) {
    const { status } = granted(await parley.get(`${MESSAGES}/${id}`, key), 200)
    assert.ok(['pending', 'assigned'].includes(status), status)
  }
  clock.advance(1000)
  tooLate(await parley.ended(id, key))
  assert.equal(granted(await admin.get(`/jobs/${id}`), 200).settled_at, deadline)
}

onEachStore(() => {
  test('a running call is aborted at the deadline, also that of a repair, and the caller gets the error', async (t) => {
    const stage = await startStage(t)
    const { parley, models, clock } = stage
    const key = await parley.key()
    const format = { format: 'json', schema: { type: 'object', required: ['a'] } }
    for (const script of [
      () => reply.stall(),
      (_: unknown, n: number) => (n === 0 ? reply.text('{}') : reply.stall()),
    ]) {
      const before = completions(models)
      models.script = (_request, index) => script(null, index - before)
      const waiting = parley.post(MESSAGES, job({ response_format: format, complete_within: 10 }), key)
      const calls = script.length === 0 ? 1 : 2
      while (completions(models) < before + calls) await parley.get('/readyz')
      clock.advance(9999)
      assert.equal(await Promise.race([waiting, parley.get('/readyz').then(() => 'open')]), 'open')
      clock.advance(1)
      tooLate(await waiting)
      assert.equal(await models.requests.at(-1)?.ended, 'cut')
    }
  })

  test('a job that is queued at its deadline fails without a call', async (t) => {
    const stage = await startStage(t, { ...ONE_CALL, script: () => reply.stall() })
    const { parley, models } = stage
    const key = await parley.key()
    await create(parley, key, withContent('holds the slot'))
    while (completions(models) === 0) await parley.get('/readyz')
    const ids = enqueued(
      await parley.post(
        BATCHES,
        ['a', 'b', 'c'].map((one) => withContent(one, { complete_within: 30 })),
        key,
      ),
      3,
    )
    const other = await create(parley, key, withContent('no deadline'))
    await endsAtDeadline(stage, key, ids[1] ?? '')
    for (const id of ids) tooLate(await parley.ended(id, key))
    assert.equal(granted(await parley.get(`${MESSAGES}/${other}`, key), 200).error, null)
    assert.equal(completions(models), 1)
    assert.equal(await metric(parley, 'parley_jobs_total{model="gpt-5-mini",outcome="deadline_exceeded"}'), 3)
    // Only one of the three jobs had been claimed and counts as a run. The others are no runs of 0 s.
    assert.equal(await metric(parley, 'parley_job_run_seconds_count{model="gpt-5-mini"}'), 1)
  })

  for (const [what, answer] of [
    ['an unavailable model server', reply.status(503)],
    ['a Retry-After', reply.status(429, { headers: { 'retry-after': '600' } })],
  ] as const) {
    test(`a job that waits for ${what} fails at its deadline`, async (t) => {
      const stage = await startStage(t, ONE_CALL)
      const { parley, models, clock } = stage
      models.script = (request) => (isModelList(request) ? undefined : answer)
      const key = await parley.key()
      const id = await create(parley, key, withContent(what, { complete_within: 60 }))
      while (completions(models) === 0) {
        clock.advance(1)
        await parley.get('/readyz')
      }
      clock.advance(5000)
      await parley.get('/readyz')
      await endsAtDeadline(stage, key, id)
    })
  }

  test('the deadline holds after a restart: for a job that was queued, and for one that ran', async (t) => {
    const stage = await startStage(t, { ...ONE_CALL, script: () => reply.stall() })
    const key = await stage.parley.key()
    const ran = await create(stage.parley, key, withContent('ran', { complete_within: 600 }))
    while (completions(stage.models) === 0) await stage.parley.get('/readyz')
    const queued = await create(stage.parley, key, withContent('queued', { complete_within: 60 }))
    await stopAtOnce(stage)
    stage.clock.skip(5000)
    const next = await startStage(t, { ...ONE_CALL, after: stage })
    while (completions(next.models) < 2) await next.parley.get('/readyz')
    await endsAtDeadline(next, key, queued)
    await endsAtDeadline(next, key, ran)
    assert.equal(completions(next.models), 2)
  })

  test('jobs whose deadline passed while no server ran are failed, and not started', async (t) => {
    const stage = await startStage(t, { ...ONE_CALL, script: () => reply.stall() })
    const key = await stage.parley.key()
    const ids = enqueued(
      await stage.parley.post(
        BATCHES,
        ['a', 'b'].map((one) => withContent(one, { complete_within: 60 })),
        key,
      ),
      2,
    )
    while (completions(stage.models) === 0) await stage.parley.get('/readyz')
    await stopAtOnce(stage)
    stage.clock.skip(60_000)
    const next = await startStage(t, { ...ONE_CALL, after: stage })
    for (const id of ids) {
      for (let isOpen = true; isOpen; ) {
        const answer = await next.parley.get(`${MESSAGES}/${id}`, key)
        isOpen = ['pending', 'assigned'].includes(granted(answer, 200).status)
        if (isOpen) next.clock.advance(20)
        else tooLate(answer)
      }
    }
    assert.equal(completions(next.models), 1)
  })

  test('a job that ends in time is as any other; its deadline is part of what its key compares, not of its cache', async (t) => {
    const { parley, models, clock } = await startStage(t)
    const key = await parley.key()
    const ask = (within: number | undefined, idempotency: string) =>
      parley.post(MESSAGES, job({ complete_within: within }), key, { 'idempotency-key': idempotency })
    const first = await ask(5, 'a')
    const { job_id: id } = granted(first, 200)
    assert.deepEqual((await ask(5, 'a')).body, first.body)
    invalid(await ask(6, 'a'), /different request/)
    invalid(await ask(undefined, 'a'), /different request/)
    completed(await ask(6, 'b'))
    completed(await ask(undefined, 'c'))
    assert.equal(completions(models), 1)
    clock.advance(60_000)
    completed(await parley.get(`${MESSAGES}/${id}`, key))
  })

  test('wrong values are a 400', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    for (const within of [0, -1, 1.5, 2_592_001, '60', null]) {
      invalid(await parley.post(MESSAGES, job({ complete_within: within }), key), /^complete_within: /)
    }
    invalid(await parley.post(BATCHES, [job({ complete_within: 0 })], key), /^jobs\[0\]\.complete_within: /)
  })
})
