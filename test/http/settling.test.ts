/**
 * Tests that an outcome reaches the database, whatever the request contained, and that a job ends even if the database
 * permanently rejects its outcome.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { openDatabase } from './database.ts'
import { completed, enqueued, failed, granted } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const LEASE_MS = 30_000
const LOOK_MS = 500
/** Without a timeout, a job that never ends would block the whole run. */
const LIMITED = { timeout: 60_000 }

const TTLS = ['300.0001', '300.49999999999994', '1.8000001e2', '3e2', '35999999e-4', '180.0000000000000001']

onEachStore(() => {
  test(
    '2.1 a message_cache_ttl of any fraction: each job of a batch completes after one call',
    LIMITED,
    async (t) => {
      const { parley, models } = await startStage(t)
      const key = await parley.key()
      const jobs = TTLS.map((ttl) => bodyWith(ttl, `batch ${ttl}`)).join(',')
      const ids = enqueued(await parley.post(BATCHES, `[${jobs}]`, key), TTLS.length)
      for (const id of ids) completed(await parley.ended(id, key))
      assert.equal(models.requests.length, TTLS.length)
    },
  )

  test(
    '2.1 a message_cache_ttl of any fraction: a single create, and its cached answer',
    LIMITED,
    async (t) => {
      const { parley, models } = await startStage(t)
      const key = await parley.key()
      for (const ttl of TTLS) {
        completed(await parley.post(MESSAGES, bodyWith(ttl, ttl), key))
        // The identical job is answered from the cache, so the first answer was cached.
        const again = await parley.post(MESSAGES, bodyWith(ttl, ttl), key)
        assert.equal(again.headers.get('x-cache'), 'hit')
      }
      assert.equal(models.requests.length, TTLS.length)
    },
  )

  test(
    'a job that an older version stored with a fraction of a millisecond completes',
    LIMITED,
    async (t) => {
      const { parley, models } = await startStage(t, {
        settings: { jobs: { concurrency: 1 } },
        script: (_request, index) => (index === 0 ? reply.stall() : undefined),
      })
      const key = await parley.key()
      const jobs = `[${bodyWith('300', 'first')},${bodyWith('300', 'second')}]`
      const ids = enqueued(await parley.post(BATCHES, jobs, key), 2)
      await models.received(1)
      await (await openDatabase(t, parley)).setCacheTtl(300.0001)
      models.release()
      for (const id of ids) completed(await parley.ended(id, key))
      assert.equal(models.requests.length, 2)
    },
  )

  test(
    'settings of a fraction of a millisecond, and beyond what a timer or a column holds',
    LIMITED,
    async (t) => {
      const receiver = await startReceiver({}, t)
      receiver.script({ kind: 'answer', status: 500 })
      const { parley, clock } = await startStage(t, {
        settings: {
          postgres: { statement_timeout_seconds: 15.000_01 },
          jobs: { retention_seconds: 604_800.000_01, lease_seconds: 30.000_01, run_timeout_seconds: 1e12 },
          limits: { idempotency_seconds: 86_400.000_01 },
          callbacks: {
            timeout_seconds: 15.000_01,
            retry_seconds: [0, 1e300],
            allow_networks: ['127.0.0.1/32'],
          },
        },
      })
      const key = await parley.key()
      completed(await parley.post(MESSAGES, job(), key, { 'idempotency-key': 'one' }))
      const callback = { callback_url: receiver.url }
      const [id = ''] = enqueued(await parley.post(BATCHES, [job({ callback })], key), 1)
      completed(await parley.ended(id, key))
      clock.advance(1000)
      await receiver.received(1)
      while ((await parley.store.findCallback(id))?.log.length !== 1) t.signal.throwIfAborted()
      await parley.store.expire({ nowMs: clock.nowMs(), retentionMs: 1 })
    },
  )

  const USAGES = [
    '{"prompt_tokens":12.5,"completion_tokens":-3}',
    '{"prompt_tokens":1e400,"completion_tokens":"7"}',
    '{"prompt_tokens":9007199254740991,"completion_tokens":9007199254740991}',
    '{"prompt_tokens":null,"completion_tokens":[1]}',
    '[]',
    'null',
  ]

  test(
    'whatever token counts a model server claims, each job completes after one call',
    LIMITED,
    async (t) => {
      const { parley, models } = await startStage(t, {
        script: (_request, index) =>
          reply.garbage(
            `{"choices":[{"message":{"content":"yes"}}],"usage":${USAGES[index % USAGES.length]}}`,
          ),
      })
      const key = await parley.key()
      const jobs = [...USAGES, ...USAGES].map((_, index) => bodyWith('300', `${index}`)).join(',')
      const ids = enqueued(await parley.post(BATCHES, `[${jobs}]`, key), USAGES.length * 2)
      for (const id of ids) assert.equal(completed(await parley.ended(id, key)), 'yes')
      assert.equal(models.requests.length, ids.length)
      const { usage } = granted(await parley.get('/api/v1/me', key), 200)
      assert.ok(usage.input_tokens >= Number.MAX_SAFE_INTEGER)
    },
  )

  test(
    'an outcome that the database rejects: the job fails with internal_error after one call, beside others',
    LIMITED,
    async (t) => {
      const receiver = await startReceiver({}, t)
      const { parley, models, clock } = await startStage(t, {
        settings: { callbacks: { allow_networks: ['127.0.0.1/32'] } },
        script: () => reply.stall(),
      })
      const database = await openDatabase(t, parley)
      await database.rejectOutcomes('poison')
      const key = await parley.key()
      const callback = { callback_url: receiver.url }
      const contents = ['a', 'poison 1', 'b', 'poison 2', 'c']
      const jobs = contents.map((content) => job({ callback, messages: [{ role: 'user', content }] }))
      const ids = enqueued(await parley.post(BATCHES, jobs, key), jobs.length)
      await models.received(jobs.length)
      // The answers are sent together, so that Parley stores the outcomes as one group.
      models.release()
      for (const [index, content] of contents.entries()) {
        const read = await parley.ended(ids[index] ?? '', key)
        if (content.startsWith('poison')) internalError(failed(read))
        else assert.equal(completed(read), `echo: ${content}`)
      }
      clock.advance(LOOK_MS * 2)
      assert.equal((await receiver.received(jobs.length)).length, jobs.length)
      assert.equal(models.requests.length, jobs.length)
      const { usage } = granted(await parley.get('/api/v1/me', key), 200)
      assert.deepEqual([usage.jobs, usage.failed_jobs, usage.calls], [5, 2, 5])
      assert.equal(usage.input_tokens, contents.join('').length)
      assert.equal(logged(parley, 'error', 'internal_error').length, 2)
    },
  )

  test(
    'an outcome that the database rejects: whoever waits is answered, and what was used is kept',
    LIMITED,
    async (t) => {
      const { parley } = await startStage(t, { script: () => reply.text('poison') })
      const database = await openDatabase(t, parley)
      await database.rejectOutcomes('poison')
      const key = await parley.key()
      const created = await parley.post(MESSAGES, job(), key)
      internalError(failed(created))
      assert.deepEqual(
        failed(await parley.get(`${MESSAGES}/${created.body.data.job_id}`, key)),
        failed(created),
      )
      const [outcome] = await database.outcomes()
      const { input_tokens, output_tokens, calls, cache_hit } = JSON.parse(outcome?.usage ?? '')
      assert.deepEqual([input_tokens, output_tokens, calls, cache_hit], [5, 6, 1, false])
      assert.equal(JSON.parse(outcome?.receipt ?? '').calls.length, 1)
    },
  )

  test(
    'a database that rejects every outcome: the job is not run again, and can be cancelled',
    LIMITED,
    async (t) => {
      const { parley, models, clock } = await startStage(t)
      const database = await openDatabase(t, parley)
      const accept = await database.rejectOutcomes('')
      const key = await parley.key()
      const [id = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
      while (logged(parley, 'error', id).length < 2) await parley.get(`${MESSAGES}/${id}`, key)
      for (let beats = 0; beats < 30; beats++) {
        clock.advance(LEASE_MS / 9)
        // The write of this request comes after the heartbeat's writes, so those are done when it is answered.
        await parley.get('/readyz')
      }
      assert.equal(models.requests.length, 1)
      assert.equal((await parley.get(`${MESSAGES}/${id}`, key)).body.data.status, 'assigned')
      await accept()
      assert.equal(await parley.store.cancelJob(id, clock.nowMs()), 'cancelled')
      assert.equal(failed(await parley.get(`${MESSAGES}/${id}`, key)).code, 'cancelled')
      assert.equal(models.requests.length, 1)
    },
  )
})

/** Builds the body as JSON text, because `JSON.stringify` would change the spelling of the number. */
function bodyWith(ttl: string, content: string): string {
  return JSON.stringify(job({ message_cache_ttl: 'TTL', messages: [{ role: 'user', content }] })).replace(
    '"TTL"',
    ttl,
  )
}

function internalError(error: { readonly code: string; readonly message: string }): void {
  const { message, ...rest } = error
  assert.deepEqual(rest, { code: 'internal_error' })
  assert.match(message, /could not store the outcome/)
}

function logged({ log }: Parley, level: string, words: string) {
  return log.filter((line) => line.level === level && line.message.includes(words))
}
