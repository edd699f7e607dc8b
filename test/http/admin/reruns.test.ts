/** Tests the admin API's reruns: new jobs with the requests of finished jobs. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import type { OwnCap } from '../../../src/store/account-store.ts'
import { isPostgres } from '../../../src/store/open.ts'
import { reply, type Script } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { type Answer, job } from '../../parley.ts'
import { connectPostgres } from '../../postgres/connection.ts'
import { startReceiver } from '../../receiver.ts'
import { eventually } from '../../support/eventually.ts'
import { enqueued, granted, invalid, refused } from '../expect.ts'
import { type StageOptions, startStage, UNLIMITED_READS } from '../stage.ts'
import { adminOf } from './admin.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
/** Parley doesn't retry after status 400, so a job fails at its first call. */
const FAILS: Script = () => reply.status(400)

async function start(t: { after(end: () => unknown): void }, options: StageOptions = {}) {
  const stage = await startStage(t, options)
  const admin = await adminOf(stage.parley)
  const key = await stage.parley.key('user_max', 'acme')
  /** Creates jobs one after the other; resolves with their IDs when all have ended. */
  const ended = async (jobs: readonly object[], owner = key): Promise<string[]> => {
    const ids: string[] = []
    for (const one of jobs) {
      const [id = ''] = enqueued(await stage.parley.post(BATCHES, [one], owner), 1)
      await stage.parley.ended(id, owner)
      ids.push(id)
    }
    return ids
  }
  const rerun = (body: object) => admin.post('/jobs/rerun', body)
  const linksOf = async (id: string) => {
    const { rerun_of, reruns } = granted(await admin.get(`/jobs/${id}`), 200)
    return [rerun_of, reruns]
  }
  return { ...stage, admin, key, ended, rerun, linksOf }
}

const pairsOf = (data: Answer['body']): [string, string][] =>
  data.jobs.map(({ rerun_of, job_id }: Record<string, string>) => [rerun_of, job_id])
const without = ({ jobs, ...others }: Answer['body']) => ({ ...others, jobs: jobs.length })
const DONE = { skipped: 0, refused: [], waiting: 0, next: null }

onEachStore(() => {
  test('a rerun has the whole request of its job, and both are linked', async (t) => {
    const { parley, models, clock, admin, key, ended, linksOf } = await start(t)
    models.script = () => reply.text('{"a":"b"}')
    const request = job({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Grüße 🌍' },
      ],
      response_format: { format: 'json', schema: { type: 'object', properties: { a: { type: 'string' } } } },
      options: { temperature: 0.5, max_tokens: 50, stop: ['x'] },
      metadata: { customer: 'c-1' },
      priority: 'low',
      complete_within: 600,
    })
    const [id = ''] = await ended([request])
    clock.advance(60_000)
    const { job_id: rerunId, rerun_of } = granted(await admin.post(`/jobs/${id}/rerun`, {}), 200)
    assert.equal(rerun_of, id)
    assert.equal((await parley.ended(rerunId, key)).body.data.status, 'completed')
    const [first, second] = models.completions()
    assert.deepEqual(second?.body, first?.body)
    const contents = await Promise.all([id, String(rerunId)].map((one) => admin.get(`/jobs/${one}/content`)))
    const [before, after] = contents.map((answer) => granted(answer, 200))
    for (const part of ['messages', 'response_format', 'options', 'metadata']) {
      assert.deepEqual(after[part], before[part], part)
    }
    const [old, made] = await Promise.all(
      [id, rerunId].map(async (one) => granted(await admin.get(`/jobs/${one}`), 200)),
    )
    assert.deepEqual([made.model, made.account, made.priority], [old.model, 'acme', 'low'])
    assert.deepEqual([made.deadline - made.created_at, made.cache_hit], [600, false])
    assert.equal(made.created_at - old.created_at, 60)
    assert.deepEqual(
      [await linksOf(id), await linksOf(rerunId)],
      [
        [null, [rerunId]],
        [id, []],
      ],
    )
    const [entry] = granted(await admin.get('/audit'), 200).acts.filter(
      ({ what }: { what: string }) => what === 'rerun a job',
    )
    assert.deepEqual([entry.account, entry.target, entry.outcome], ['acme', id, `rerun as ${rerunId}`])
  })

  test('a job is rerun once, and again only if asked; a rerun of a rerun is linked to it', async (t) => {
    const { admin, parley, key, ended, linksOf } = await start(t)
    const [id = ''] = await ended([job()])
    const rerunOne = (one: string, body?: object) => admin.post(`/jobs/${one}/rerun`, body)
    const { job_id: first } = granted(await rerunOne(id), 200)
    await parley.ended(first, key)
    const again = refused(await rerunOne(id, { again: false }), 409)
    assert.equal(again.message, 'The job was not rerun.')
    assert.match(again.details ?? '', new RegExp(first))
    const { job_id: second } = granted(await rerunOne(id, { again: true }), 200)
    const { job_id: third } = granted(await rerunOne(first), 200)
    assert.equal(new Set([id, first, second, third]).size, 4)
    assert.deepEqual(await linksOf(id), [null, [first, second]])
    assert.deepEqual(await linksOf(first), [id, [third]])
  })

  test('the callback is sent again only if asked', async (t) => {
    const receiver = await startReceiver({}, t)
    const { admin, parley, key, ended } = await start(t, {
      settings: { callbacks: { allow_networks: ['127.0.0.0/8'] } },
    })
    const callback = {
      callback_url: receiver.url,
      callback_headers: { 'x-own': 'a' },
      callback_payload: { big: 12345678901234567890n.toString(), n: 1 },
    }
    const [id = ''] = await ended([job({ callback })])
    await receiver.received(1)
    const { job_id: silent } = granted(await admin.post(`/jobs/${id}/rerun`), 200)
    await parley.ended(silent, key)
    assert.equal(granted(await admin.get(`/jobs/${silent}`), 200).callback, null)
    const { job_id: loud } = granted(
      await admin.post(`/jobs/${id}/rerun`, { again: true, with_callback: true }),
      200,
    )
    const [, sent] = await receiver.received(2)
    const { job_id, callback_payload } = JSON.parse(sent?.body ?? '')
    assert.deepEqual([job_id, callback_payload], [loud, callback.callback_payload])
    assert.equal(sent?.headers['x-own'], 'a')
  })

  test('what cannot be rerun is refused with the reason', async (t) => {
    const { admin, models, parley, key, ended, rerun } = await start(t, {
      settings: { jobs: { retention_seconds: 3600 } },
    })
    models.script = FAILS
    const [failed = ''] = await ended([job()])
    models.script = () => reply.stall()
    const [open = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await models.received(2)
    assert.equal(refused(await admin.post(`/jobs/${open}/rerun`), 409).details, 'It has not finished.')
    for (const id of [randomUUID(), 'x']) refused(await admin.post(`/jobs/${id}/rerun`), 404)
    invalid(await rerun({}), /the body must have at least one field/)
    invalid(await rerun({ again: true }), /at least one of account, error_code, model, from and status/)
    invalid(await rerun({ before: 'x', account: 'acme' }), /before/)
    invalid(await rerun({ limit: 0, account: 'acme' }), /limit/)

    granted(await admin.post('/accounts/acme/suspend'), 200)
    const details = refused(await admin.post(`/jobs/${failed}/rerun`), 409).details ?? ''
    assert.match(details, /acme is suspended/)
    const found = granted(await rerun({ account: 'acme' }), 200)
    assert.deepEqual(found, {
      ...DONE,
      jobs: [],
      refused: [{ reason: details, jobs: 1, example_job_id: failed }],
    })
    granted(await admin.post('/accounts/acme/resume'), 200)
    assert.equal(pairsOf(granted(await rerun({ account: 'acme' }), 200)).length, 1)
  })

  test('the tokens of a rerun are counted if their bound exceeds the limit of the new tier', async (t) => {
    const { parley, admin, key, ended } = await start(t, {
      settings: { tiers: { ...UNLIMITED_READS, user_free: { max_input_tokens: 150 } } },
    })
    const of = (words: number) => job({ messages: [{ role: 'user', content: 'word '.repeat(words) }] })
    const many = job({ messages: Array(50).fill({ role: 'user', content: '{"word' }) })
    const [short, long, split] = await ended([of(100), of(200), many])
    granted(await admin.post('/accounts/acme/tier', { tier: 'user_free' }), 200)
    const { job_id } = granted(await admin.post(`/jobs/${short}/rerun`), 200)
    await parley.ended(job_id, key)
    for (const id of [long, split])
      assert.match(
        refused(await admin.post(`/jobs/${id}/rerun`), 409).details ?? '',
        /this job has (2\d\d|at least 15\d)\./,
      )
  })

  test('an expired job is not rerun', async (t) => {
    const { admin, models, clock, ended, rerun } = await start(t, {
      settings: { jobs: { retention_seconds: 3600 } },
    })
    models.script = FAILS
    const [id = ''] = await ended([job()])
    clock.advance(3_700_000)
    refused(await admin.post(`/jobs/${id}/rerun`), 404)
    assert.deepEqual(granted(await rerun({ account: 'acme' }), 200), { ...DONE, jobs: [] })
  })

  test('a search reruns failed jobs up to its limit, and continues when it is repeated', async (t) => {
    const { parley, models, key, ended, rerun, linksOf } = await start(t)
    const other = await parley.key('user_max', 'other')
    models.script = FAILS
    const ids = await ended(Array.from({ length: 5 }, () => job()))
    await ended([job()], other)
    models.script = () => undefined
    const [completed = ''] = await ended([job()])
    models.script = FAILS
    const calls = models.completions().length
    const first = granted(await rerun({ account: 'acme', error_code: 'model_error', limit: 2 }), 200)
    assert.deepEqual(
      pairsOf(first)
        .map(([of]) => of)
        .sort(),
      ids.slice(3),
    )
    assert.deepEqual(without(first), { ...DONE, jobs: 2, next: ids[3] })
    for (const [, id] of pairsOf(first)) await parley.ended(id, key)
    // The failed reruns are the newest failed jobs now. The rerun must choose the next of the callers' jobs all the same.
    const second = granted(await rerun({ account: 'acme', limit: 2 }), 200)
    assert.deepEqual(
      pairsOf(second)
        .map(([of]) => of)
        .sort(),
      ids.slice(1, 3),
    )
    assert.equal(second.skipped, 4)
    const third = granted(await rerun({ account: 'acme' }), 200)
    assert.deepEqual(
      pairsOf(third).map(([of]) => of),
      ids.slice(0, 1),
    )
    assert.equal(third.next, null)
    for (const [, id] of [...pairsOf(second), ...pairsOf(third)]) await parley.ended(id, key)
    const fourth = granted(await rerun({ account: 'acme', status: 'failed' }), 200)
    assert.deepEqual(without(fourth), { ...DONE, jobs: 0, skipped: 10 })
    assert.equal(models.completions().length, calls + 5)
    assert.deepEqual(await linksOf(completed), [null, []])
    const again = granted(await rerun({ account: 'acme', again: true, limit: 3 }), 200)
    assert.equal(pairsOf(again).length, 3)
    const page = granted(await rerun({ account: 'acme', again: true, before: again.next, limit: 3 }), 200)
    const of = [...pairsOf(again), ...pairsOf(page)].map(([of]) => of)
    assert.equal(new Set(of).size, 6)
  })

  test('a search matches by code, model, time and how jobs ended', async (t) => {
    const { models, clock, ended, rerun } = await start(t)
    models.script = FAILS
    const [early = ''] = await ended([job()])
    clock.advance(10_000)
    const from = Math.floor(clock.nowMs() / 1000)
    const [mini = '', large = ''] = await ended([job(), job({ model: 'gpt-5' })])
    models.script = () => undefined
    const [completed = ''] = await ended([job()])
    const found = async (body: object) => pairsOf(granted(await rerun(body), 200)).map(([of]) => of)
    assert.deepEqual(await found({ error_code: 'timeout' }), [])
    assert.deepEqual(await found({ model: 'gpt-5' }), [large])
    assert.deepEqual(await found({ from }), [mini])
    assert.deepEqual(await found({ status: 'completed', to: from + 100, account: 'acme' }), [completed])
    assert.deepEqual(await found({ error_code: 'model_error' }), [early])
  })

  test('the limits of the account hold for reruns, except for its jobs per minute', async (t) => {
    const { admin, models, parley, key, ended, rerun } = await start(t, {
      settings: { tiers: { user_max: { creates_per_minute: 4 } } },
    })
    models.script = FAILS
    const ids = await ended(Array.from({ length: 4 }, () => job()))
    const cap = async (openJobs: OwnCap, monthlyJobs: OwnCap) => {
      await parley.store.setCaps('acme', { openJobs, monthlyJobs, monthlyTokens: null, storedBytes: null })
    }
    models.script = () => reply.stall()
    await cap(1, null)
    const first = granted(await rerun({ account: 'acme' }), 200)
    assert.equal(pairsOf(first).length, 1)
    assert.equal(first.refused.length, 1)
    assert.equal(first.refused[0].jobs, 3)
    assert.match(first.refused[0].reason, /^Quota reached: account acme allows 1 open jobs/)
    await cap(null, 6)
    const second = granted(await rerun({ account: 'acme' }), 200)
    assert.equal(pairsOf(second).length, 1)
    assert.match(second.refused[0].reason, /^Monthly cap reached/)
    await cap(null, null)
    const third = granted(await rerun({ account: 'acme' }), 200)
    const of = [first, second, third].flatMap(pairsOf).map(([of]) => of)
    assert.deepEqual(of.sort(), ids)
    // The caller's four creates have used up its jobs per minute, which did not limit the reruns.
    assert.equal((await parley.post(BATCHES, [job()], key)).status, 429)
    const { usage } = granted(await admin.get('/usage?account=acme'), 200)
    assert.equal(usage[0].jobs, 4)
  })

  test('a rerun calls the model although its answer is cached, and two of equal jobs are two jobs', async (t) => {
    const { admin, parley, models, key, ended } = await start(t)
    const { job_id: id } = granted(await parley.post(MESSAGES, job(), key), 200)
    const [cached = ''] = await ended([job()])
    assert.equal(models.completions().length, 1)
    for (const one of [id, cached]) {
      const { job_id } = granted(await admin.post(`/jobs/${one}/rerun`), 200)
      await parley.ended(job_id, key)
    }
    assert.equal(models.completions().length, 3)
  })

  test('if a node crashes after it accepted the job, another one links that job and makes no second one', async (t) => {
    const { admin, parley, clock, ended, linksOf } = await start(t)
    const [id = ''] = await ended([job()])
    const { endRerun } = parley.store
    const accepted: (string | null)[] = []
    parley.store.endRerun = async (_id, { rerunId }) => {
      accepted.push(rerunId)
      throw new Error('the node is gone')
    }
    const asked = admin.post(`/jobs/${id}/rerun`)
    while (accepted.length === 0) await parley.get('/readyz')
    const until = async (isTrue: () => boolean | Promise<boolean>) => {
      while (!(await isTrue())) {
        t.signal.throwIfAborted()
        clock.advance(1000)
      }
    }
    let answer: Answer | undefined
    void asked.then((given) => {
      answer = given
    })
    await until(async () => (await parley.get('/readyz')).status === 200 && answer !== undefined)
    assert.ok(answer)
    assert.deepEqual(granted(answer, 200), { job_id: null, rerun_of: id })
    const again = refused(await admin.post(`/jobs/${id}/rerun`), 409)
    assert.match(again.details ?? '', /A rerun of it is requested/)
    // The original `endRerun` is restored here. Until now, no node could link the job to its reruns.
    parley.store.endRerun = endRerun
    await until(
      async () => JSON.stringify(await linksOf(id)) === JSON.stringify([null, accepted.slice(0, 1)]),
    )
    assert.equal(granted(await admin.get('/jobs'), 200).jobs.length, 2)
  })

  test('while a node of an earlier version is alive, nothing is rerun that it would answer from the cache', async (t) => {
    const { admin, parley, ended } = await start(t)
    if (!isPostgres(parley.database)) return
    const [id = ''] = await ended([job()])
    const database = await connectPostgres(t, parley.database)
    await database.query(
      `insert into nodes (node, lease_until) values ('earlier', clock_timestamp() + interval '60 s')`,
    )
    // Each node checks once a second which other nodes run.
    const untilKnown = (known: boolean) =>
      eventually(
        () => parley.store.isKnownToAll('uncached'),
        (isKnown) => isKnown === known,
        { signal: t.signal },
      )
    await untilKnown(false)
    const { details } = refused(await admin.post(`/jobs/${id}/rerun`), 409)
    assert.equal(details, 'A node of an earlier version is still running.')
    await database.query(`delete from nodes where node = 'earlier'`)
    await untilKnown(true)
    granted(await admin.post(`/jobs/${id}/rerun`), 200)
  })
})
