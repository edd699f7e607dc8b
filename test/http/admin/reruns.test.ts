/** Tests the admin API's reruns: new jobs with the requests of finished jobs. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import type { OwnCap } from '../../../src/store/account-store.ts'
import { reply, type Script } from '../../model-server.ts'
import { onEachStore, storeName } from '../../on-each-store.ts'
import { type Answer, job } from '../../parley.ts'
import { startReceiver } from '../../receiver.ts'
import { eventually } from '../../support/eventually.ts'
import { callerOf, idOf, LOCAL_CALLBACKS, type Scene, says } from '../caller.ts'
import { completed, invalid, refused } from '../expect.ts'
import { UNLIMITED_READS } from '../stage.ts'
import { type Admin, shareAdminStage, startAdminScene } from './admin.ts'

/** Parley doesn't retry after status 400, so a job fails at its first call. */
const FAILS: Script = () => reply.status(400)
const DONE = { skipped: 0, refused: [], waiting: 0, next: null }

const start = async (t: TestContext, settings: object, script: Script = () => undefined) =>
  withReruns(await startAdminScene(t, { settings: { ...settings }, script, account: 'acme' }))

function withReruns<Given extends Scene & { readonly admin: Admin }>(scene: Given) {
  const { admin, caller } = scene
  /** Each job ends before the next is created, so that their order is certain. */
  const ended = async (jobs: readonly object[], owner = caller): Promise<string[]> => {
    const ids: string[] = []
    for (const one of jobs) {
      const [id = ''] = await owner.enqueue([one])
      await owner.ended(id)
      ids.push(id)
    }
    return ids
  }
  const rerunOne = (id: string | undefined, body?: object) => admin.post(`/jobs/${id}/rerun`, body)
  const rerunEnded = async (id: string | undefined, body?: object): Promise<string> => {
    const { job_id } = await admin.run(`/jobs/${id}/rerun`, body)
    await caller.ended(job_id)
    return job_id
  }
  const rerun = (body: object) => admin.run('/jobs/rerun', body)
  const linksOf = async (id: string | undefined) => {
    const { rerun_of, reruns } = await admin.read(`/jobs/${id}`)
    return [rerun_of, reruns]
  }
  return { ...scene, ended, rerunOne, rerunEnded, rerun, linksOf }
}

const originals = ({ jobs }: Answer['body']): string[] =>
  jobs.map(({ rerun_of }: Record<string, string>) => rerun_of)
const without = ({ jobs, ...others }: Answer['body']) => ({ ...others, jobs: jobs.length })

onEachStore(() => {
  const beginScene = shareAdminStage({ settings: LOCAL_CALLBACKS })
  const begin = async (t: TestContext, script?: Script) => withReruns(await beginScene(t, script))

  test('a rerun has the whole request of its job, and both are linked', async (t) => {
    const scene = await begin(t, () => reply.text('{"a":"b"}'))
    const { models, clock, admin, account, caller, ended, linksOf } = scene
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
    const { job_id: rerunId, rerun_of } = await admin.run(`/jobs/${id}/rerun`, {})
    assert.equal(rerun_of, id)
    completed(await caller.ended(rerunId))
    const [first, second] = models.completions()
    assert.deepEqual(second?.body, first?.body)
    const before = await admin.read(`/jobs/${id}/content`)
    const after = await admin.read(`/jobs/${rerunId}/content`)
    for (const part of ['messages', 'response_format', 'options', 'metadata']) {
      assert.deepEqual(after[part], before[part], part)
    }
    const [old, made] = [await admin.read(`/jobs/${id}`), await admin.read(`/jobs/${rerunId}`)]
    assert.deepEqual([made.model, made.account, made.priority], [old.model, account, 'low'])
    assert.deepEqual([made.deadline - made.created_at, made.cache_hit], [600, false])
    assert.equal(made.created_at - old.created_at, 60)
    assert.deepEqual(await linksOf(id), [null, [rerunId]])
    assert.deepEqual(await linksOf(rerunId), [id, []])
    const { acts } = await admin.read(`/audit?account=${account}`)
    const entry = acts.find(({ what }: { what: string }) => what === 'rerun a job')
    assert.deepEqual([entry.account, entry.target, entry.outcome], [account, id, `rerun as ${rerunId}`])
  })

  test('a job is rerun once, and again only if asked; a rerun of a rerun is linked to it', async (t) => {
    const { ended, rerunOne, rerunEnded, linksOf } = await begin(t)
    const [id] = await ended([job()])
    const first = await rerunEnded(id)
    refused(await rerunOne(id, { again: false }), 409, {
      message: 'The job was not rerun.',
      details: new RegExp(first),
    })
    const [second, third] = [await rerunEnded(id, { again: true }), await rerunEnded(first)]
    assert.equal(new Set([id, first, second, third]).size, 4)
    assert.deepEqual(await linksOf(id), [null, [first, second]])
    assert.deepEqual(await linksOf(first), [id, [third]])
  })

  test('the callback is sent again only if asked', async (t) => {
    const receiver = await startReceiver({}, t)
    const { admin, ended, rerunEnded } = await begin(t)
    const callback = {
      callback_url: receiver.url,
      callback_headers: { 'x-own': 'a' },
      callback_payload: { big: 12345678901234567890n.toString(), n: 1 },
    }
    const [id] = await ended([job({ callback })])
    await receiver.received(1)
    const silent = await rerunEnded(id)
    assert.equal((await admin.read(`/jobs/${silent}`)).callback, null)
    const loud = await rerunEnded(id, { again: true, with_callback: true })
    const [, sent] = await receiver.received(2)
    const { job_id, callback_payload } = JSON.parse(sent?.body ?? '')
    assert.deepEqual([job_id, callback_payload], [loud, callback.callback_payload])
    assert.equal(sent?.headers['x-own'], 'a')
  })

  test('what cannot be rerun is refused with the reason', async (t) => {
    const { admin, account, models, caller, ended, rerunOne, rerun } = await begin(t, FAILS)
    const [failed] = await ended([job()])
    models.script = () => reply.stall()
    const open = await caller.enqueueOne()
    await models.received(2)
    refused(await rerunOne(open), 409, { details: 'It has not finished.' })
    for (const id of [randomUUID(), 'x']) refused(await rerunOne(id), 404)
    for (const [body, details] of [
      [{}, /the body must have at least one field/],
      [{ again: true }, /at least one of account, error_code, model, from and status/],
      [{ before: 'x', account }, /before/],
      [{ limit: 0, account }, /limit/],
    ] as const) {
      invalid(await admin.post('/jobs/rerun', body), details)
    }

    await admin.run(`/accounts/${account}/suspend`)
    const reason = refused(await rerunOne(failed), 409).details ?? ''
    assert.match(reason, / is suspended/)
    const found = await rerun({ account })
    const expected = [{ reason, jobs: 1, example_job_id: failed }]
    assert.deepEqual(found, { ...DONE, jobs: [], refused: expected })
    await admin.run(`/accounts/${account}/resume`)
    assert.equal((await rerun({ account })).jobs.length, 1)
  })

  test('the tokens of a rerun are counted if their bound exceeds the limit of the new tier', async (t) => {
    const tiers = { ...UNLIMITED_READS, user_free: { max_input_tokens: 150 } }
    const { admin, ended, rerunOne, rerunEnded } = await start(t, { tiers })
    const of = (words: number) => says('word '.repeat(words))
    const many = job({ messages: Array(50).fill({ role: 'user', content: '{"word' }) })
    const [short, long, split] = await ended([of(100), of(200), many])
    await admin.run('/accounts/acme/tier', { tier: 'user_free' })
    await rerunEnded(short)
    for (const id of [long, split]) {
      refused(await rerunOne(id), 409, { details: /this job has (2\d\d|at least 15\d)\./ })
    }
  })

  test('an expired job is not rerun', async (t) => {
    const { clock, ended, rerunOne, rerun } = await start(t, { jobs: { retention_seconds: 3600 } }, FAILS)
    const [id] = await ended([job()])
    clock.advance(3_700_000)
    refused(await rerunOne(id), 404)
    assert.deepEqual(await rerun({ account: 'acme' }), { ...DONE, jobs: [] })
  })

  test('a search reruns failed jobs up to its limit, and continues when it is repeated', async (t) => {
    const { parley, account, models, caller, ended, rerun, linksOf } = await begin(t, FAILS)
    const other = await callerOf(parley, 'user_max', 'other')
    const ids = await ended(Array.from({ length: 5 }, () => job()))
    await ended([job()], other)
    models.script = () => undefined
    const [completed] = await ended([job()])
    models.script = FAILS
    const calls = models.completions().length
    const rerunAll = async (body: object) => {
      const found = await rerun({ account, ...body })
      for (const { job_id } of found.jobs) await caller.ended(job_id)
      return found
    }
    const first = await rerunAll({ error_code: 'model_error', limit: 2 })
    assert.deepEqual(originals(first).sort(), ids.slice(3))
    assert.deepEqual(without(first), { ...DONE, jobs: 2, next: ids[3] })
    // The newest failed jobs now are the failed reruns. The search must pass over them and find the callers' jobs.
    const second = await rerunAll({ limit: 2 })
    assert.deepEqual([originals(second).sort(), second.skipped], [ids.slice(1, 3), 4])
    const third = await rerunAll({})
    assert.deepEqual([originals(third), third.next], [ids.slice(0, 1), null])
    const fourth = await rerunAll({ status: 'failed' })
    assert.deepEqual(without(fourth), { ...DONE, jobs: 0, skipped: 10 })
    assert.equal(models.completions().length, calls + 5)
    assert.deepEqual(await linksOf(completed), [null, []])
    const again = await rerun({ account, again: true, limit: 3 })
    assert.equal(again.jobs.length, 3)
    const page = await rerun({ account, again: true, before: again.next, limit: 3 })
    assert.equal(new Set([...originals(again), ...originals(page)]).size, 6)
  })

  test('a search matches by code, model, time and how jobs ended', async (t) => {
    const { models, clock, ended, rerun } = await start(t, {}, FAILS)
    const early = await ended([job()])
    clock.advance(10_000)
    const from = Math.floor(clock.nowMs() / 1000)
    const [mini, large] = await ended([job(), job({ model: 'gpt-5' })])
    models.script = () => undefined
    const completed = await ended([job()])
    for (const [search, expected] of [
      [{ error_code: 'timeout' }, []],
      [{ model: 'gpt-5' }, [large]],
      [{ from }, [mini]],
      [{ status: 'completed', to: from + 100, account: 'acme' }, completed],
      [{ error_code: 'model_error' }, early],
    ] as const) {
      assert.deepEqual(originals(await rerun(search)), expected, JSON.stringify(search))
    }
  })

  test('the limits of the account hold for reruns, except for its jobs per minute', async (t) => {
    const settings = { tiers: { user_max: { creates_per_minute: 4 } } }
    const { admin, models, parley, caller, ended, rerun } = await start(t, settings, FAILS)
    const ids = await ended(Array.from({ length: 4 }, () => job()))
    models.script = () => reply.stall()
    const rerunUnder = async (openJobs: OwnCap, monthlyJobs: OwnCap, count: number, reason?: RegExp) => {
      await parley.store.setCaps('acme', { openJobs, monthlyJobs, monthlyTokens: null, storedBytes: null })
      const found = await rerun({ account: 'acme' })
      assert.equal(found.jobs.length, count)
      if (reason) assert.match(found.refused[0].reason, reason)
      return found
    }
    const quota = /^Quota reached: account acme allows 1 open jobs/
    const first = await rerunUnder(1, null, 1, quota)
    assert.deepEqual([first.refused.length, first.refused[0].jobs], [1, 3])
    const second = await rerunUnder(null, 6, 1, /^Monthly cap reached/)
    const third = await rerunUnder(null, null, 2)
    assert.deepEqual([first, second, third].flatMap(originals).sort(), ids)
    // The caller's four creates have used up its jobs per minute, which did not limit the reruns.
    refused(await caller.batch([job()]), 429)
    assert.equal((await admin.read('/usage?account=acme')).usage[0].jobs, 4)
  })

  test('a rerun calls the model although its answer is cached, and two of equal jobs are two jobs', async (t) => {
    const { models, caller, ended, rerunEnded } = await begin(t)
    const ids = [idOf(await caller.create()), ...(await ended([job()]))]
    assert.equal(models.completions().length, 1)
    for (const id of ids) await rerunEnded(id)
    assert.equal(models.completions().length, 3)
  })

  test('if a node crashes after it accepted the job, another one links that job and makes no second one', async (t) => {
    const { admin, parley, clock, ended, rerunOne, linksOf } = await start(t, {})
    const [id] = await ended([job()])
    const accepted: (string | null)[] = []
    const { mock } = t.mock.method(
      parley.store,
      'endRerun',
      async (_id: string, { rerunId }: { rerunId: string | null }) => {
        accepted.push(rerunId)
        throw new Error('the node is gone')
      },
    )
    const until = async (isTrue: () => boolean | Promise<boolean>) => {
      while (!(await isTrue())) {
        t.signal.throwIfAborted()
        clock.advance(1000)
      }
    }
    let answer: Answer | undefined
    const asked = rerunOne(id)
    while (accepted.length === 0) await parley.get('/readyz')
    void asked.then((given) => {
      answer = given
    })
    await until(async () => (await parley.get('/readyz')).status === 200 && answer !== undefined)
    assert.deepEqual((await asked).body.data, { job_id: null, rerun_of: id })
    const again = refused(await rerunOne(id), 409)
    assert.match(again.details ?? '', /A rerun of it is requested/)
    // The original `endRerun` is restored here. Until now, no node could link the job to its reruns.
    mock.restore()
    const expected = JSON.stringify([null, accepted.slice(0, 1)])
    await until(async () => JSON.stringify(await linksOf(id)) === expected)
    assert.equal((await admin.read('/jobs')).jobs.length, 2)
  })

  if (storeName() === 'Postgres') {
    test('while a node of an earlier version is alive, nothing is rerun that it would answer from the cache', async (t) => {
      const { addEarlierNode } = await import('../earlier-node.ts')
      const { parley, ended, rerunOne, rerunEnded } = await start(t, {})
      const [id] = await ended([job()])
      const endNode = await addEarlierNode(t, parley)
      // Each node checks once a second which other nodes run.
      const untilKnown = (known: boolean) =>
        eventually(
          () => parley.store.isKnownToAll('uncached'),
          (isKnown) => isKnown === known,
          { signal: t.signal },
        )
      await untilKnown(false)
      refused(await rerunOne(id), 409, { details: 'A node of an earlier version is still running.' })
      await endNode()
      await untilKnown(true)
      await rerunEnded(id)
    })
  }
})
