/**
 * Tests that an outcome reaches the database, whatever the request contained, and that a job ends even if the database
 * permanently rejects its outcome.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { idOf, LOCAL_CALLBACKS, MESSAGES, says, shareStage, startScene } from './caller.ts'
import { openDatabase } from './database.ts'
import { completed, enqueued, failed } from './expect.ts'

const LEASE_MS = 30_000
const LOOK_MS = 500
const TTLS = ['300.0001', '300.49999999999994', '1.8000001e2', '3e2', '35999999e-4', '180.0000000000000001']
const USAGES = [
  '{"prompt_tokens":12.5,"completion_tokens":-3}',
  '{"prompt_tokens":1e400,"completion_tokens":"7"}',
  '{"prompt_tokens":9007199254740991,"completion_tokens":9007199254740991}',
  '{"prompt_tokens":null,"completion_tokens":[1]}',
  '[]',
  'null',
]

/** Without a timeout, a job that never ends would block the whole run. */
const limited = (title: string, work: (t: TestContext) => Promise<void>) =>
  test(title, { timeout: 60_000 }, work)

/** Builds the body as JSON text, because `JSON.stringify` would change the spelling of the number. */
const bodyWith = (ttl: string, content: string) =>
  JSON.stringify(says(content, { message_cache_ttl: 'TTL' })).replace('"TTL"', ttl)

function internalError(error: { readonly code: string; readonly message: string }): void {
  const { message, ...rest } = error
  assert.deepEqual(rest, { code: 'internal_error' })
  assert.match(message, /could not store the outcome/)
}

const errors = ({ log }: Parley, words: string) =>
  log.filter(({ level, message }) => level === 'error' && message.includes(words))

onEachStore(() => {
  const begin = shareStage()

  limited(
    '2.1 a message_cache_ttl of any fraction: each job of a batch completes after one call',
    async (t) => {
      const { caller, models } = await begin(t)
      const jobs = TTLS.map((ttl) => bodyWith(ttl, `batch ${ttl}`)).join(',')
      const ids = enqueued(await caller.batch(`[${jobs}]`), TTLS.length)
      for (const id of ids) completed(await caller.ended(id))
      assert.equal(models.requests.length, TTLS.length)
    },
  )

  limited('2.1 a message_cache_ttl of any fraction: a single create, and its cached answer', async (t) => {
    const { caller, models } = await begin(t)
    for (const ttl of TTLS) {
      completed(await caller.post(MESSAGES, bodyWith(ttl, ttl)))
      // The cache answers the identical job, so the first answer was cached.
      const again = await caller.post(MESSAGES, bodyWith(ttl, ttl))
      assert.equal(again.headers.get('x-cache'), 'hit')
    }
    assert.equal(models.requests.length, TTLS.length)
  })

  limited('a job that an older version stored with a fraction of a millisecond completes', async (t) => {
    const { parley, caller, models } = await startScene(t, {
      settings: { jobs: { concurrency: 1 } },
      script: (_request, index) => (index === 0 ? reply.stall() : undefined),
    })
    const ids = await caller.enqueue([says('first'), says('second')])
    await models.received(1)
    await (await openDatabase(t, parley)).setCacheTtl(300.0001)
    models.release()
    for (const id of ids) completed(await caller.ended(id))
    assert.equal(models.requests.length, 2)
  })

  limited('settings of a fraction of a millisecond, and beyond what a timer or a column holds', async (t) => {
    const receiver = await startReceiver({}, t)
    receiver.script({ kind: 'answer', status: 500 })
    const callbacks = { ...LOCAL_CALLBACKS.callbacks, timeout_seconds: 15.000_01, retry_seconds: [0, 1e300] }
    const { parley, caller, clock } = await startScene(t, {
      settings: {
        postgres: { statement_timeout_seconds: 15.000_01 },
        jobs: { retention_seconds: 604_800.000_01, lease_seconds: 30.000_01, run_timeout_seconds: 1e12 },
        limits: { idempotency_seconds: 86_400.000_01 },
        callbacks,
      },
    })
    completed(await caller.create({}, { 'idempotency-key': 'one' }))
    const id = await caller.enqueueOne({ callback: { callback_url: receiver.url } })
    completed(await caller.ended(id))
    clock.advance(1000)
    await receiver.received(1)
    while ((await parley.store.findCallback(id))?.log.length !== 1) t.signal.throwIfAborted()
    await parley.store.expire({ nowMs: clock.nowMs(), retentionMs: 1 })
  })

  limited('whatever token counts a model server claims, each job completes after one call', async (t) => {
    const { caller, models } = await begin(t, (_request, index) => {
      const usage = USAGES[index % USAGES.length]
      return reply.garbage(`{"choices":[{"message":{"content":"yes"}}],"usage":${usage}}`)
    })
    const ids = await caller.enqueue([...USAGES, ...USAGES].map((_, index) => says(`${index}`)))
    for (const id of ids) assert.equal(completed(await caller.ended(id)), 'yes')
    assert.equal(models.requests.length, ids.length)
    assert.ok((await caller.me()).usage.input_tokens >= Number.MAX_SAFE_INTEGER)
  })

  limited(
    'an outcome that the database rejects: the job fails with internal_error after one call, beside others',
    async (t) => {
      const receiver = await startReceiver({}, t)
      const { parley, caller, models, clock } = await startScene(t, {
        settings: LOCAL_CALLBACKS,
        script: () => reply.stall(),
      })
      await (await openDatabase(t, parley)).rejectOutcomes('poison')
      const callback = { callback_url: receiver.url }
      const contents = ['a', 'poison 1', 'b', 'poison 2', 'c']
      const ids = await caller.enqueue(contents.map((content) => says(content, { callback })))
      await models.received(ids.length)
      // The answers are sent together, so that Parley stores the outcomes as one group.
      models.release()
      for (const [index, content] of contents.entries()) {
        const read = await caller.ended(ids[index])
        if (content.startsWith('poison')) internalError(failed(read))
        else assert.equal(completed(read), `echo: ${content}`)
      }
      clock.advance(LOOK_MS * 2)
      assert.equal((await receiver.received(ids.length)).length, ids.length)
      assert.equal(models.requests.length, ids.length)
      const { usage } = await caller.me()
      assert.deepEqual([usage.jobs, usage.failed_jobs, usage.calls], [5, 2, 5])
      assert.equal(usage.input_tokens, contents.join('').length)
      assert.equal(errors(parley, 'internal_error').length, 2)
    },
  )

  limited(
    'an outcome that the database rejects: whoever waits is answered, and what was used is kept',
    async (t) => {
      const { parley, caller } = await startScene(t, { script: () => reply.text('poison') })
      const database = await openDatabase(t, parley)
      await database.rejectOutcomes('poison')
      const created = await caller.create()
      internalError(failed(created))
      assert.deepEqual(failed(await caller.read(idOf(created))), failed(created))
      const [outcome] = await database.outcomes()
      const { input_tokens, output_tokens, calls, cache_hit } = JSON.parse(outcome?.usage ?? '')
      assert.deepEqual([input_tokens, output_tokens, calls, cache_hit], [5, 6, 1, false])
      assert.equal(JSON.parse(outcome?.receipt ?? '').calls.length, 1)
    },
  )

  limited(
    'a database that rejects every outcome: the job is not run again, and can be cancelled',
    async (t) => {
      const { parley, caller, models, clock } = await startScene(t)
      const accept = await (await openDatabase(t, parley)).rejectOutcomes('')
      const [id = ''] = await caller.enqueue([job()])
      while (errors(parley, id).length < 2) await caller.read(id)
      for (let beats = 0; beats < 30; beats++) {
        clock.advance(LEASE_MS / 9)
        // This request's write comes after the heartbeat's writes, so those are done when it is answered.
        await parley.get('/readyz')
      }
      assert.equal(models.requests.length, 1)
      assert.equal((await caller.read(id)).body.data.status, 'assigned')
      await accept()
      assert.equal(await parley.store.cancelJob(id, clock.nowMs()), 'cancelled')
      assert.equal(failed(await caller.read(id)).code, 'cancelled')
      assert.equal(models.requests.length, 1)
    },
  )
})
