/** Tests the single creates of the client, against a real server. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AuthenticationError,
  InvalidRequestError,
  JobFailedError,
  type Me,
  NotFoundError,
  ParleyError,
  PermissionError,
} from '../../client/src/index.ts'
import { FakeClock } from '../fake-clock.ts'
import { pendingResponsesAre, startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { startParley } from '../parley.ts'
import { onFirstUse } from '../support/on-first-use.ts'
import { asking, clientOf, HurriedClock, reasonOf } from './client.ts'

onAnyStore(() => {
  const simulated = onFirstUse((t) => startParley(t))
  let accounts = 0
  const newClient = async () => {
    const parley = await simulated()
    return clientOf(parley, await parley.key('user_max', `account-${++accounts}`))
  }

  test('create resolves with the completed job, as a read shows it', async () => {
    const client = await newClient()
    const job = await client.messages.create(asking('Hello!'))
    assert.equal(job.status, 'completed')
    assert.match(job.result.response_content, /Hello!/)
    assert.deepEqual(await client.messages.retrieve(job.job_id), job)
  })

  test('create resolves with a failed job, and createAndWait throws it', async () => {
    const client = await newClient()
    const job = await client.messages.create(asking('[[fail content_policy_violation]]'))
    assert.equal(job.status, 'failed')
    assert.equal(job.error.code, 'content_policy_violation')
    const failing = client.messages.createAndWait(asking('[[fail content_policy_violation]]'))
    const error = await reasonOf(failing, JobFailedError)
    assert.ok(error instanceof ParleyError)
    assert.equal(error.code, 'content_policy_violation')
    assert.equal(error.job.job_id, error.jobId)
  })

  test("if a job outlives the server's wait, create reports it and createAndWait continues", async (t) => {
    const { parley, models, clock } = await startStage(t, { script: () => reply.stall() })
    const own = new HurriedClock()
    const client = clientOf(parley, await parley.key(), { clock: own })
    const created = client.messages.create({ ...asking('First'), timeout: 30 })
    const awaited = client.messages.createAndWait({ ...asking('Second'), timeout: 30 })
    await models.received(2)
    await pendingResponsesAre(t, parley, 2)
    clock.advance(30_000)
    const job = await created
    assert.equal(job.status, 'timeout')
    models.script = () => undefined
    models.release()
    assert.equal((await awaited).result.response_content, 'echo: Second')
    const ended = await client.messages.wait(job.job_id)
    assert.deepEqual(ended.result, { response_content: 'echo: First' })
  })

  test('a single create may take as long as the server waits, plus the timeout of any request', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.stall() })
    const clock = new FakeClock()
    const client = clientOf(parley, await parley.key(), { clock, requestTimeout: 20 })
    const created = [
      client.messages.create({ ...asking('x'), timeout: 40 }),
      client.messages.create(asking('y')),
    ]
    await clock.timerSet((ms) => ms === 60_000)
    await clock.timerSet((ms) => ms === 110_000)
    await models.received(2)
    models.release()
    await Promise.all(created)
  })

  test('each error response has its class, with status, details and request ID', async () => {
    const [parley, client] = [await simulated(), await newClient()]
    const refused = async <T extends ParleyError>(
      call: Promise<unknown>,
      type: new (...args: never) => T,
    ): Promise<T> => {
      const error = await reasonOf(call, type)
      assert.match(error.requestId ?? '', /./)
      return error
    }
    const call = client.messages.create({ ...asking('x'), message_cache_ttl: 1 })
    const invalid = await refused(call, InvalidRequestError)
    assert.equal(invalid.status, 400)
    assert.match(invalid.details ?? '', /^message_cache_ttl: /)
    assert.match(invalid.message, /message_cache_ttl/)
    assert.equal((await refused(clientOf(parley, 'prl_nobody').me(), AuthenticationError)).status, 401)
    const free = clientOf(parley, await parley.key('user_free'))
    await refused(free.messages.create({ ...asking('x'), model: 'gpt-5' }), PermissionError)
    const missing = await refused(client.messages.retrieve('../me'), NotFoundError)
    assert.match(missing.details ?? '', /does not exist or has expired/)
  })

  test('an answer from the cache can be recognized by its headers', async () => {
    const client = await newClient()
    const caches: (string | null)[] = []
    const onAnswer = ({ headers }: { readonly headers: Headers }) => {
      caches.push(headers.get('x-cache'))
    }
    await client.messages.create(asking('Again'), { onAnswer })
    await client.messages.create(asking('Again'), { onAnswer })
    assert.deepEqual(caches, [null, 'hit'])
  })

  test('me returns what the key may do', async () => {
    const client = await newClient()
    await client.messages.create(asking('Hello'))
    const { tier, limits, usage, suspended, open_jobs, stored_bytes } = await client.me()
    assert.equal(tier, 'user_max')
    assert.equal(limits.max_batch_jobs, 30)
    assert.deepEqual([limits.max_open_jobs, limits.max_stored_bytes, open_jobs], [null, null, 0])
    assert.ok(stored_bytes !== undefined && stored_bytes > 0)
    assert.deepEqual([limits.max_monthly_jobs, suspended, usage.jobs], [null, false, 1])
    assert.deepEqual(usage.models, [{ model: asking('').model, ...sumsOf(usage) }])
  })
})

const sumsOf = ({ month: _month, resets_at: _resets, models: _models, ...sums }: Me['usage']) => sums
