/** Tests reads of a job (SPEC §4.2). */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { StoreUnavailable } from '../../src/store/store.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { completed, enqueued, failed, granted, refused } from './expect.ts'
import { type Stage, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const DAY_MS = 86_400_000

/**
 * Creates a batch of two jobs on a Parley that runs one job at a time: the first is assigned, the second pending. Returns their
 * IDs.
 */
async function twoJobs({ parley, models }: Stage, key: string): Promise<[string, string]> {
  const [first = '', second = ''] = enqueued(await parley.post(BATCHES, [job(), job()], key), 2)
  await models.received(1)
  return [first, second]
}

const ONE_AT_A_TIME = { settings: { jobs: { concurrency: 1 } }, script: () => reply.stall() } as const

onEachStore(() => {
  test('4.2 a job id in upper case is the same job', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const { job_id } = (await parley.post(MESSAGES, job(), key)).body.data
    const lower = await parley.get(`${MESSAGES}/${job_id}`, key)
    const upper = await parley.get(`${MESSAGES}/${job_id.toUpperCase()}`, key)
    assert.deepEqual([upper.status, upper.text], [200, lower.text])
    assert.equal(upper.body.data.job_id, job_id)
    const other = await parley.key('user_max', 'another')
    const [unknown, foreign] = [randomUUID().toUpperCase(), job_id.toUpperCase()]
    const answers = await Promise.all([unknown, foreign].map((id) => parley.get(`${MESSAGES}/${id}`, other)))
    assert.deepEqual(
      answers.map(({ status, text }) => [status, text]),
      Array(2).fill([404, answers[0]?.text]),
    )
    const path = `${MESSAGES}/${job_id.toUpperCase()}`
    const headers = { 'x-api-key': key }
    refused(await parley.request(`${path}/cancel`, { method: 'POST', headers }), 409)
    const deleted = await parley.request(path, { method: 'DELETE', headers })
    assert.equal(granted(deleted, 200).job_id, job_id)
    refused(await parley.get(`${MESSAGES}/${job_id}`, key), 404)
    await parley.stop()
    const lines = parley.log.filter(({ route, status }) => route === `${MESSAGES}/:jobId` && status === 200)
    assert.deepEqual(
      lines.map(({ job_ids }) => job_ids),
      [[job_id], [job_id], [job_id]],
    )
  })

  test('4.2 no cache may keep a read, whatever its status', async (t) => {
    const { parley } = await startStage(t, { settings: { tiers: { user_go: { reads_per_minute: 2 } } } })
    const key = await parley.key('user_go')
    const { job_id } = (await parley.post(MESSAGES, job(), key)).body.data
    const read = `${MESSAGES}/${job_id}`
    for (const [path, own, status] of [
      [read, key, 200],
      [`${MESSAGES}/${randomUUID()}`, key, 404],
      [read, key, 429],
      [read, undefined, 401],
      ['/api/v1/me', key, 200],
      [`${MESSAGES}/%zz`, key, 404],
    ] as const) {
      const answer = await parley.get(path, own)
      assert.equal(answer.status, status, path)
      assert.equal(answer.headers.get('cache-control'), 'no-store', `${status} ${path}`)
    }
  })

  test('4.2 503 for an address that cannot be decoded while keys cannot be looked up', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    Object.assign(parley.store, { findKey: () => Promise.reject(new StoreUnavailable('down')) })
    refused(await parley.get(`${MESSAGES}/%zz`, key), 503)
  })

  test('4.2 200 pending: exactly these fields, result and error null', async (t) => {
    const stage = await startStage(t, ONE_AT_A_TIME)
    const { parley, clock } = stage
    const key = await parley.key()
    const [, id] = await twoJobs(stage, key)
    const answer = await parley.get(`${MESSAGES}/${id}`, key)
    assert.equal(answer.status, 200)
    assert.deepEqual(answer.body, {
      success: true,
      message: 'The job is queued.',
      data: {
        status: 'pending',
        job_id: id,
        created_at: Math.floor(clock.nowMs() / 1000),
        result: null,
        error: null,
      },
    })
  })

  test('4.2 200 assigned: exactly these fields, result and error null', async (t) => {
    const stage = await startStage(t, ONE_AT_A_TIME)
    const { parley, clock } = stage
    const key = await parley.key()
    const createdAt = Math.floor(clock.nowMs() / 1000)
    const [id] = await twoJobs(stage, key)
    clock.advance(5000)
    const answer = await parley.get(`${MESSAGES}/${id}`, key)
    assert.equal(answer.status, 200)
    assert.deepEqual(answer.body, {
      success: true,
      message: 'The job is being processed.',
      data: { status: 'assigned', job_id: id, created_at: createdAt, result: null, error: null },
    })
  })

  test('4.2 200 completed: exactly these fields, error null', async (t) => {
    const { parley, clock } = await startStage(t, { script: () => reply.text('Hi.') })
    const key = await parley.key()
    const [id = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    assert.deepEqual((await parley.ended(id, key)).body, {
      success: true,
      message: 'The job is completed.',
      data: {
        status: 'completed',
        job_id: id,
        created_at: Math.floor(clock.nowMs() / 1000),
        result: { response_content: 'Hi.' },
        error: null,
      },
    })
  })

  test('4.2 200 failed: exactly these fields, result null', async (t) => {
    const { parley, clock } = await startStage(t, { script: () => reply.refusal('No.') })
    const key = await parley.key()
    const [id = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    assert.deepEqual((await parley.ended(id, key)).body, {
      success: true,
      message: 'The job has failed.',
      data: {
        status: 'failed',
        job_id: id,
        created_at: Math.floor(clock.nowMs() / 1000),
        result: null,
        error: {
          code: 'content_policy_violation',
          message: 'The model declined to answer because of its content policy.',
          upstream_status: 200,
          upstream_message: 'No.',
        },
      },
    })
  })

  test('4.2 a final status never changes', async (t) => {
    const { parley, clock } = await startStage(t)
    const key = await parley.key()
    const first = await parley.post(MESSAGES, job(), key)
    clock.skip(DAY_MS)
    assert.equal((await parley.get(`${MESSAGES}/${first.body.data.job_id}`, key)).text, first.text)
  })

  test('4.2 401 for a missing or invalid key, whatever the id', async (t) => {
    const { parley } = await startStage(t)
    const made = await parley.post(MESSAGES, job(), await parley.key())
    for (const id of [made.body.data.job_id, randomUUID(), 'x', '%zz']) {
      for (const key of [undefined, 'prl_nonsense']) {
        const { message, details } = refused(await parley.get(`${MESSAGES}/${id}`, key), 401)
        assert.equal(message, 'API key is required.')
        assert.match(details ?? '', /^Supply a valid API key in the x-api-key header\. The /)
      }
    }
  })

  /** Returns all parts of a response that could tell a caller whether a job of another account exists. */
  function traits({ status, text, headers }: Answer) {
    return [status, text, headers.get('content-type'), headers.get('content-length')]
  }

  test('4.2 404 byte for byte the same for an id that is malformed, unknown, expired or of another account', async (t) => {
    const { parley, clock } = await startStage(t, { settings: { jobs: { retention_seconds: 300 } } })
    const key = await parley.key('user_pro')
    const read = (id: string) => parley.get(`${MESSAGES}/${id}`, key)
    const expired = (await parley.post(MESSAGES, job(), key)).body.data.job_id
    clock.advance(300_000)
    const theirs = (await parley.post(MESSAGES, job(), await parley.key('user_max'))).body.data.job_id
    const mine = (await parley.post(MESSAGES, job({ model: 'gpt-5' }), key)).body.data.job_id
    completed(await read(mine))

    const unknown = await read(randomUUID())
    const { message, details } = refused(unknown, 404)
    assert.equal(message, 'Job not found.')
    assert.match(details ?? '', /does not exist or has expired/)
    const ids = [
      expired,
      theirs,
      theirs.toUpperCase(),
      `${mine}0`,
      mine.slice(1),
      mine.replaceAll('-', ''),
      `{${mine}}`,
      `urn:uuid:${mine}`,
      `${mine}%00`,
      '%20',
      'batches',
      '',
      'x'.repeat(500),
      'x'.repeat(9000),
      '%zz',
      '%ff',
      '%',
      '0',
      '-1',
      "'%20or%201=1--",
      '..%2f..%2fetc%2fpasswd',
    ]
    for (const id of ids) assert.deepEqual(traits(await read(id)), traits(unknown), id)
    for (const [name] of unknown.headers) assert.ok((await read(theirs)).headers.has(name), name)
  })

  test('4.2 404 for a malformed id without asking the storage', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    parley.store.read = () => Promise.reject(new Error('the storage was asked'))
    for (const id of ['batches', 'x'.repeat(500), '%00', randomUUID().slice(1)]) {
      refused(await parley.get(`${MESSAGES}/${id}`, key), 404)
    }
  })

  test('4.2 404 for the jobs of another account on every route, while its own keys read them', async (t) => {
    const { parley } = await startStage(t)
    const [one, other] = [await parley.key('user_max', 'one'), await parley.key('user_max', 'other')]
    const second = await parley.key('user_max', 'one')
    const ids = enqueued(await parley.post(BATCHES, [job(), job()], one), 2)
    ids.push((await parley.post(MESSAGES, job(), one)).body.data.job_id)
    const unknown = traits(await parley.get(`${MESSAGES}/${randomUUID()}`, other))
    for (const id of ids) {
      completed(await parley.ended(id, second))
      assert.deepEqual(traits(await parley.get(`${MESSAGES}/${id}`, other)), unknown)
    }
  })

  test('4.2 404 for an expired job: 7 days after its end, judged at the read', async (t) => {
    const stage = await startStage(t, { script: () => reply.stall() })
    const { parley, models, clock } = stage
    const key = await parley.key()
    const [id = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await models.received(1)
    clock.advance(100_000)
    models.release()
    const answer = await parley.ended(id, key)
    clock.skip(7 * DAY_MS - 1)
    assert.equal((await parley.get(`${MESSAGES}/${id}`, key)).text, answer.text)
    clock.advance(1)
    refused(await parley.get(`${MESSAGES}/${id}`, key), 404)
  })

  test('4.2 404 for an expired job: failed ones expire too', async (t) => {
    const { parley, clock } = await startStage(t, { script: () => reply.status(400) })
    const key = await parley.key()
    const answer = await parley.post(MESSAGES, job(), key)
    failed(answer)
    clock.skip(7 * DAY_MS)
    refused(await parley.get(`${MESSAGES}/${answer.body.data.job_id}`, key), 404)
  })

  test('4.2 a job is readable no less than its message_cache_ttl', async (t) => {
    const { parley, clock } = await startStage(t, { settings: { jobs: { retention_seconds: 60 } } })
    const key = await parley.key()
    const id = (await parley.post(MESSAGES, job({ message_cache_ttl: 200 }), key)).body.data.job_id
    clock.advance(199_999)
    completed(await parley.get(`${MESSAGES}/${id}`, key))
    clock.advance(1)
    refused(await parley.get(`${MESSAGES}/${id}`, key), 404)
  })

  test('4.2 a job is readable while its callback is still being tried', async (t) => {
    const receiver = await startReceiver({ reply: () => ({ kind: 'answer', status: 500 }) }, t)
    const { parley, clock } = await startStage(t, {
      settings: {
        jobs: { retention_seconds: 60 },
        callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0, 1_000_000] },
      },
    })
    const key = await parley.key()
    const batch = [job({ callback: { callback_url: receiver.url } }), job()]
    const [owed = '', free = ''] = enqueued(await parley.post(BATCHES, batch, key), 2)
    for (const id of [owed, free]) completed(await parley.ended(id, key))
    clock.advance(400_000)
    completed(await parley.get(`${MESSAGES}/${owed}`, key))
    refused(await parley.get(`${MESSAGES}/${free}`, key), 404)
  })

  test('4.2 429 over the reads a minute, with Retry-After and the RateLimit headers', async (t) => {
    const { parley, clock } = await startStage(t, {
      settings: { tiers: { user_free: { reads_per_minute: 3 } } },
    })
    const key = await parley.key('user_free')
    const other = await parley.key('user_free')
    const path = `${MESSAGES}/${(await parley.post(MESSAGES, job(), key)).body.data.job_id}`
    const limits = ({ headers }: Answer) =>
      ['limit', 'remaining', 'reset'].map((name) => headers.get(`ratelimit-${name}`))

    const first = await parley.get(path, key)
    assert.deepEqual([first.status, ...limits(first)], [200, '3', '2', '60'])
    assert.equal(first.headers.get('retry-after'), null)
    clock.advance(20_000)
    const second = await parley.get(`${MESSAGES}/unknown`, key)
    assert.deepEqual([second.status, ...limits(second)], [404, '3', '1', '40'])
    const third = await parley.get(path, key)
    assert.deepEqual([third.status, ...limits(third)], [200, '3', '0', '40'])

    const over = await parley.get(path, key)
    const { message, details } = refused(over, 429)
    assert.equal(message, 'Rate limit exceeded.')
    assert.equal(details, 'This key may make at most 3 reads per minute. Try again in 40 s.')
    assert.deepEqual(limits(over), ['3', '0', '40'])
    assert.equal(over.headers.get('retry-after'), '40')

    // Another key of the account has its own limit of reads, and creates do not count as reads.
    completed(await parley.get(path, other))
    completed(await parley.post(MESSAGES, job(), key))
    clock.advance(39_999)
    assert.equal((await parley.get(path, key)).headers.get('retry-after'), '1')
    clock.advance(1)
    const again = await parley.get(path, key)
    assert.deepEqual([again.status, ...limits(again)], [200, '3', '2', '60'])
  })

  test('4.2 429 does not come before 401', async (t) => {
    const { parley } = await startStage(t, { settings: { tiers: { user_free: { reads_per_minute: 1 } } } })
    const key = await parley.key('user_free')
    const path = `${MESSAGES}/${randomUUID()}`
    refused(await parley.get(path, key), 404)
    refused(await parley.get(path, key), 429)
    refused(await parley.get(path), 401)
  })

  test('4.2 500 says nothing of its cause', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    parley.store.read = () => Promise.reject(new Error('a bug in the store'))
    const answer = await parley.get(`${MESSAGES}/${randomUUID()}`, key)
    assert.deepEqual(answer.body, { success: false, message: 'Internal server error.' })
    refused(answer, 500)
  })

  test('4.2 503 with Retry-After while the storage is down', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    parley.store.read = () => Promise.reject(new StoreUnavailable('the database is away'))
    const answer = await parley.get(`${MESSAGES}/${randomUUID()}`, key)
    refused(answer, 503)
    assert.equal(answer.headers.get('retry-after'), '1')
  })

  test('4.2 the spelling of the path with an extra letter s is not served', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const id = (await parley.post(MESSAGES, job(), key)).body.data.job_id
    assert.equal(refused(await parley.get(`/api/v1/messagess/${id}`, key), 404).message, 'Not found.')
    assert.equal(refused(await parley.get(`${MESSAGES}/${id}/`, key), 404).message, 'Not found.')
  })
})
