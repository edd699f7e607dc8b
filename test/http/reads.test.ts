/** Tests reads of a job (SPEC §4.2). */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { StoreUnavailable } from '../../src/store/store.ts'
import { type Reply, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { callerOf, DAY_MS, idOf, LOCAL_CALLBACKS, ME, MESSAGES, shareStage, startScene } from './caller.ts'
import { completed, failed, granted, refused } from './expect.ts'

const NO_ANSWER = { result: null, error: null }
const COMPLETED = { result: { response_content: 'Hi.' }, error: null }
const FAILED = {
  result: null,
  error: {
    code: 'content_policy_violation',
    message: 'The model declined to answer because of its content policy.',
    upstream_status: 200,
    upstream_message: 'No.',
  },
}
const STATES: readonly [status: string, nulls: string, message: string, answer: Reply, parts: object][] = [
  ['pending', 'result and error null', 'The job is queued.', reply.stall(), NO_ANSWER],
  ['assigned', 'result and error null', 'The job is being processed.', reply.stall(), NO_ANSWER],
  ['completed', 'error null', 'The job is completed.', reply.text('Hi.'), COMPLETED],
  ['failed', 'result null', 'The job has failed.', reply.refusal('No.'), FAILED],
]

/** Returns all parts of a response that could tell a caller whether a job of another account exists. */
function traits({ status, text, headers }: Answer) {
  return [status, text, headers.get('content-type'), headers.get('content-length')]
}

onEachStore(async () => {
  const begin = await shareStage()

  test('4.2 a job id in upper case is the same job', async (t) => {
    const { parley, caller } = await startScene(t)
    const id = idOf(await caller.create())
    const upper = id.toUpperCase()
    const [read, same] = [await caller.read(id), await caller.read(upper)]
    assert.deepEqual([same.status, same.text, same.body.data.job_id], [200, read.text, id])
    const other = await callerOf(parley, 'user_max', 'another')
    const [unknown, foreign] = [await other.read(randomUUID().toUpperCase()), await other.read(upper)]
    assert.deepEqual(traits(foreign), traits(unknown))
    refused(unknown, 404)
    refused(await caller.cancel(upper), 409)
    assert.equal(idOf(await caller.remove(upper)), id)
    refused(await caller.read(id), 404)
    await parley.stop()
    const lines = parley.log.filter(({ route, status }) => route === `${MESSAGES}/:jobId` && status === 200)
    assert.deepEqual(
      lines.map(({ job_ids }) => job_ids),
      [[id], [id], [id]],
    )
  })

  test('4.2 no cache may keep a read, whatever its status', async (t) => {
    const { parley, caller } = await startScene(t, {
      settings: { tiers: { user_go: { reads_per_minute: 2 } } },
      tier: 'user_go',
    })
    const read = `${MESSAGES}/${idOf(await caller.create())}`
    for (const [path, key, status] of [
      [read, caller.key, 200],
      [`${MESSAGES}/${randomUUID()}`, caller.key, 404],
      [read, caller.key, 429],
      [read, undefined, 401],
      [ME, caller.key, 200],
      [`${MESSAGES}/%zz`, caller.key, 404],
    ] as const) {
      const answer = await parley.get(path, key)
      const found = [answer.status, answer.headers.get('cache-control')]
      assert.deepEqual(found, [status, 'no-store'], path)
    }
  })

  test('4.2 503 for an address that cannot be decoded while keys cannot be looked up', async (t) => {
    const { parley, caller } = await startScene(t)
    Object.assign(parley.store, { findKey: () => Promise.reject(new StoreUnavailable('down')) })
    refused(await caller.read('%zz'), 503)
  })

  for (const [status, nulls, message, answer, parts] of STATES) {
    test(`4.2 200 ${status}: exactly these fields, ${nulls}`, async (t) => {
      const { caller, models, clock } = await startScene(t, {
        settings: { jobs: { concurrency: 1 } },
        script: () => answer,
      })
      const createdAt = Math.floor(clock.nowMs() / 1000)
      const [first, second] = await caller.enqueue([job(), job()])
      await models.received(1)
      clock.advance(5000)
      const id = status === 'pending' ? second : first
      const read =
        status === 'pending' || status === 'assigned' ? await caller.read(id) : await caller.ended(id)
      const data = { status, job_id: id, created_at: createdAt, ...parts }
      assert.deepEqual([read.status, read.body], [200, { success: true, message, data }])
    })
  }

  test('4.2 a final status never changes', async (t) => {
    const { caller, clock } = await begin(t)
    const first = await caller.create()
    clock.skip(DAY_MS)
    assert.equal((await caller.read(idOf(first))).text, first.text)
  })

  test('4.2 404 byte for byte the same for an id that is malformed, unknown, expired or of another account', async (t) => {
    const { parley, caller, clock } = await startScene(t, { settings: { jobs: { retention_seconds: 300 } } })
    const expired = idOf(await caller.create())
    clock.advance(300_000)
    const theirs = idOf(await (await callerOf(parley, 'user_pro')).create())
    const mine = idOf(await caller.create({ model: 'gpt-5' }))
    completed(await caller.read(mine))

    const unknown = await caller.read(randomUUID())
    const { message, details } = refused(unknown, 404)
    assert.equal(message, 'Job not found.')
    assert.match(details ?? '', /does not exist or has expired/)
    const altered = [`${mine}0`, mine.slice(1), mine.replaceAll('-', ''), `{${mine}}`, `urn:uuid:${mine}`]
    const malformed = "%20 batches %zz %ff % 0 -1 '%20or%201=1-- ..%2f..%2fetc%2fpasswd".split(' ')
    const others = [
      expired,
      theirs,
      theirs.toUpperCase(),
      `${mine}%00`,
      '',
      'x'.repeat(500),
      'x'.repeat(9000),
    ]
    for (const id of [...altered, ...malformed, ...others]) {
      assert.deepEqual(traits(await caller.read(id)), traits(unknown), id)
    }
    for (const [name] of unknown.headers) assert.ok((await caller.read(theirs)).headers.has(name), name)
  })

  test('4.2 404 for a malformed id without asking the storage', async (t) => {
    const { parley, caller } = await begin(t)
    t.mock.method(parley.store, 'read', () => assert.fail('the storage was asked'))
    for (const id of ['batches', 'x'.repeat(500), '%00', randomUUID().slice(1)]) {
      refused(await caller.read(id), 404)
    }
  })

  test('4.2 404 for an expired job: 7 days after its end, judged at the read', async (t) => {
    const { caller, models, clock } = await begin(t, () => reply.stall())
    const id = await caller.enqueueOne()
    await models.received(1)
    clock.advance(100_000)
    models.release()
    const answer = await caller.ended(id)
    clock.skip(7 * DAY_MS - 1)
    assert.equal((await caller.read(id)).text, answer.text)
    clock.advance(1)
    refused(await caller.read(id), 404)
  })

  test('4.2 404 for an expired job: failed ones expire too', async (t) => {
    const { caller, clock } = await begin(t, () => reply.status(400))
    const answer = await caller.create()
    failed(answer)
    clock.skip(7 * DAY_MS)
    refused(await caller.read(idOf(answer)), 404)
  })

  test('4.2 a job is readable no less than its message_cache_ttl', async (t) => {
    const { caller, clock } = await startScene(t, { settings: { jobs: { retention_seconds: 60 } } })
    const id = idOf(await caller.create({ message_cache_ttl: 200 }))
    clock.advance(199_999)
    completed(await caller.read(id))
    clock.advance(1)
    refused(await caller.read(id), 404)
  })

  test('4.2 a job is readable while its callback is still being tried', async (t) => {
    const receiver = await startReceiver({ reply: () => ({ kind: 'answer', status: 500 }) }, t)
    const callbacks = { ...LOCAL_CALLBACKS.callbacks, retry_seconds: [0, 1_000_000] }
    const { caller, clock } = await startScene(t, {
      settings: { jobs: { retention_seconds: 60 }, callbacks },
    })
    const [owed, free] = await caller.enqueue([job({ callback: { callback_url: receiver.url } }), job()])
    for (const id of [owed, free]) completed(await caller.ended(id))
    clock.advance(400_000)
    completed(await caller.read(owed))
    refused(await caller.read(free), 404)
  })

  test('4.2 429 over the reads a minute, with Retry-After and the RateLimit headers, and not before 401', async (t) => {
    const { parley, caller, clock } = await startScene(t, {
      settings: { tiers: { user_free: { reads_per_minute: 3 } } },
      tier: 'user_free',
    })
    const other = await callerOf(parley, 'user_free')
    const id = idOf(await caller.create())
    /** Reads the job; asserts the status, the RateLimit headers and Retry-After. */
    const expect = async (status: number, remaining: string, reset: string, retryAfter: string | null) => {
      const answer = await caller.read(id)
      const names = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'retry-after']
      const found = [answer.status, ...names.map((name) => answer.headers.get(name))]
      assert.deepEqual(found, [status, '3', remaining, reset, retryAfter])
      return answer
    }
    await expect(200, '2', '60', null)
    clock.advance(20_000)
    refused(await caller.read('unknown'), 404)
    await expect(200, '0', '40', null)
    const { message, details } = refused(await expect(429, '0', '40', '40'), 429)
    assert.equal(message, 'Rate limit exceeded.')
    assert.equal(details, 'This key may make at most 3 reads per minute. Try again in 40 s.')
    refused(await parley.get(`${MESSAGES}/${id}`), 401)

    // Another key of the account has its own limit of reads, and creates do not count as reads.
    completed(await other.read(id))
    completed(await caller.create())
    clock.advance(39_999)
    await expect(429, '0', '1', '1')
    clock.advance(1)
    await expect(200, '2', '60', null)
  })

  test('4.2 the spelling of the path with an extra letter s is not served', async (t) => {
    const { caller } = await begin(t)
    const id = idOf(await caller.create())
    assert.equal(refused(await caller.get(`/api/v1/messagess/${id}`), 404).message, 'Not found.')
    assert.equal(refused(await caller.read(id, '/'), 404).message, 'Not found.')
    granted(await caller.read(id), 200)
  })
})
