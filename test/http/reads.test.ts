/** Tests reads of a job (SPEC §4.2), and the list of an account's own jobs, `GET /api/v1/messages`. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { leastJobId } from '../../src/job/job-id.ts'
import type { JobPage, JobSearch } from '../../src/store/job-search-store.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { type Reply, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import {
  type Caller,
  callerOf,
  DAY_MS,
  idOf,
  idsOf,
  LOCAL_CALLBACKS,
  ME,
  MESSAGES,
  says,
  shareStage,
  startScene,
} from './caller.ts'
import { completed, granted, invalid, refused } from './expect.ts'

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

/** Returns parts of a response that must not depend on whether a job of another account exists. */
function traits({ status, text, headers }: Answer) {
  return [status, text, headers.get('content-type'), headers.get('content-length')]
}

const list = async (caller: Caller, query: string) => granted(await caller.get(`${MESSAGES}?${query}`), 200)

async function pagesOf(caller: Caller, query: string, first = ''): Promise<Answer['body'][]> {
  const pages: Answer['body'][] = []
  for (let after = first; ; ) {
    const page = await list(caller, `${query}${after}`)
    pages.push(page)
    if (page.next === null) return pages
    after = `&after=${page.next}`
  }
}

onEachStore(() => {
  const begin = shareStage()

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
    refused(unknown, 404, { message: 'Job not found.', details: /does not exist or has expired/ })
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

  for (const [status, answer] of [
    ['completed', reply.echo()],
    ['failed', reply.status(400)],
  ] as const) {
    test(`4.2 404 for an expired job that has ${status}: 7 days after its end, judged at the read`, async (t) => {
      const { caller, models, clock } = await begin(t, () => reply.stall(answer))
      const id = await caller.enqueueOne()
      await models.received(1)
      clock.advance(100_000)
      models.release()
      const { text } = await caller.ended(id)
      clock.skip(7 * DAY_MS - 1)
      assert.equal((await caller.read(id)).text, text)
      clock.advance(1)
      refused(await caller.read(id), 404)
    })
  }

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

  test('4.2 429 over the reads a minute of a key, with Retry-After and the RateLimit headers, and not before 401', async (t) => {
    const { parley, caller, clock } = await startScene(t, {
      settings: { tiers: { user_free: { reads_per_minute: 3 } } },
      tier: 'user_free',
    })
    const other = await callerOf(parley, 'user_free')
    const id = idOf(await caller.create())
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
    refused(await expect(429, '0', '40', '40'), 429, {
      message: 'Rate limit exceeded.',
      details: 'This key may make at most 3 reads per minute. Try again in 40 s.',
    })
    refused(await parley.get(`${MESSAGES}/${id}`), 401)

    // Another key of the account reads the job, too, and has its own limit. Creates do not count as reads.
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
    refused(await caller.get(`/api/v1/messagess/${id}`), 404, { message: 'Not found.' })
    refused(await caller.read(id, '/'), 404, { message: 'Not found.' })
    granted(await caller.read(id), 200)
  })

  test('a list has the account’s own jobs, newest first, without their contents', async (t) => {
    const receiver = await startReceiver({}, t)
    const { parley, caller, models, clock } = await startScene(t, {
      settings: { jobs: { concurrency: 1 }, ...LOCAL_CALLBACKS },
      script: ({ text }) => (text.includes('refuse') ? reply.refusal('No.') : undefined),
      tier: 'user_pro',
    })
    const created = Math.floor(clock.nowMs() / 1000)
    const done = await caller.enqueueOne({ callback: { callback_url: receiver.url } })
    await caller.ended(done)
    await receiver.received(1)
    while ((await parley.store.findCallback(done))?.state !== 'delivered');
    const [refusedJob] = await caller.enqueue([says('refuse', { model: 'gpt-5' })])
    await caller.ended(refusedJob)
    models.script = () => reply.stall()
    const called = models.requests.length
    const open = await caller.enqueue([says('one'), says('two')])
    await models.received(called + 1)
    await (await callerOf(parley)).enqueueOne()
    const common = { created_at: created, model: 'gpt-5-mini', error_code: null, callback: null }
    const failure = { model: 'gpt-5', error_code: 'content_policy_violation' }
    const expected = [
      { status: 'pending', job_id: open[1], ended_at: null, ...common },
      { status: 'assigned', job_id: open[0], ended_at: null, ...common },
      { status: 'failed', job_id: refusedJob, ended_at: created, ...common, ...failure },
      { status: 'completed', job_id: done, ended_at: created, ...common, callback: 'delivered' },
    ]
    const answer = await caller.get(MESSAGES)
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.deepEqual(granted(answer, 200), { jobs: expected, next: null })
    for (const status of ['pending', 'assigned', 'completed', 'failed']) {
      const jobs = expected.filter((one) => one.status === status)
      assert.deepEqual(await list(caller, `status=${status}`), { jobs, next: null }, status)
    }
    assert.deepEqual(await (await callerOf(parley, 'user_go')).jobIds(), [])
  })

  test('pages follow each other without a gap or a repetition, whatever is created meanwhile', async (t) => {
    const { caller } = await begin(t)
    const ids = await caller.enqueue(Array.from({ length: 7 }, () => job()))
    for (const id of ids) await caller.ended(id)
    const first = await list(caller, 'limit=3')
    await caller.ended(await caller.enqueueOne())
    const rest = await pagesOf(caller, 'limit=3', `&after=${first.next}`)
    assert.deepEqual([first, ...rest].flatMap(idsOf), ids.toReversed())
    assert.deepEqual(
      rest.map(({ jobs }) => jobs.length),
      [3, 1],
    )
    const exact = await pagesOf(caller, 'limit=8')
    assert.deepEqual(
      exact.map(({ jobs, next }) => [jobs.length, next]),
      [[8, null]],
    )
  })

  test('an expired and a deleted job are not in the list', async (t) => {
    const { parley, caller, clock } = await startScene(t, { settings: { jobs: { retention_seconds: 300 } } })
    await caller.ended(await caller.enqueueOne())
    clock.advance(300_000)
    const [one = '', two] = await caller.enqueue([job(), job()])
    for (const id of [one, two]) await caller.ended(id)
    assert.equal(await parley.store.deleteJob(one), 'deleted')
    assert.deepEqual(await caller.jobIds(), [two])
  })

  test('400 for a parameter that is not one of the list’s, or goes with ids only', async (t) => {
    const { caller } = await begin(t)
    for (const [query, details] of [
      ['limit=0', /^limit: /],
      ['limit=101', /^limit: /],
      ['limit=1.5', /^limit: /],
      ['limit=', /^limit: /],
      ['limit=1&limit=2', /^limit: /],
      ['status=done', /^status: must be one of pending, assigned, completed, failed/],
      ['after=', /^after: /],
      ['after=x', /^after: must be the next value of a page/],
      ['stauts=pending', /^stauts: is not a known field/],
      ['wait=1', /^wait: needs ids/],
      ['wait_for=any', /^wait: needs ids/],
      ['wait=1&limit=5', /^wait: needs ids/],
    ] as const) {
      invalid(await caller.get(`${MESSAGES}?${query}`), details)
    }
  })

  test('a list counts as ten reads, or as what is left of a smaller limit', async (t) => {
    const { parley, clock } = await startScene(t, {
      settings: { tiers: { user_go: { reads_per_minute: 25 }, user_free: { reads_per_minute: 3 } } },
    })
    const [go, free] = [await callerOf(parley, 'user_go'), await callerOf(parley, 'user_free')]
    const remains = async (caller: Caller, status: number, remaining: string, query = '') => {
      const answer = await caller.get(`${MESSAGES}${query}`)
      assert.deepEqual([answer.status, answer.headers.get('ratelimit-remaining')], [status, remaining])
    }
    await remains(go, 200, '15')
    await remains(go, 200, '5', '?status=pending')
    const over = await go.get(MESSAGES)
    refused(over, 429, { details: /^This key may make at most 25 reads per minute/ })
    assert.ok(Number(over.headers.get('retry-after')) > 0)
    await remains(go, 200, '4', `?ids=${randomUUID()}`)
    await remains(free, 200, '0')
    await remains(free, 429, '0')
    clock.advance(60_000)
    await remains(free, 200, '0')
  })

  test('an account has two lists at once, and others are not held up by it', async (t) => {
    const { parley, caller: mine } = await begin(t)
    const same = await callerOf(parley, 'user_max', mine.account)
    const other = await callerOf(parley, 'user_max', 'other')
    const { searchJobs } = parley.store
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    let begun = 0
    const { promise: both, resolve: haveBegun } = Promise.withResolvers<void>()
    t.mock.method(parley.store, 'searchJobs', async (search: JobSearch) => {
      begun += 1
      if (begun === 2) haveBegun()
      if (search.account === mine.account) await released
      return searchJobs(search)
    })
    const waiting = [mine.get(MESSAGES), same.get(MESSAGES)]
    await both
    const third = await mine.get(MESSAGES)
    refused(third, 429, { message: 'Too many concurrent list requests.' })
    assert.equal(third.headers.get('retry-after'), '1')
    granted(await other.get(MESSAGES), 200)
    release()
    for (const answer of await Promise.all(waiting)) granted(answer, 200)
    granted(await mine.get(MESSAGES), 200)
  })

  test('where a search stops at its bound, the page is short, and its cursor is not another account’s id', async (t) => {
    const { parley, caller, clock } = await begin(t)
    const own = await caller.enqueueOne()
    await caller.ended(own)
    const { jobs } = await parley.store.searchJobs({
      account: caller.account,
      limit: 1,
      expiry: { nowMs: clock.nowMs(), retentionMs: 1e9 },
    })
    const theirMs = clock.nowMs() - 60_000
    const theirs = leastJobId(theirMs).replace('-7000-8000-0', '-7000-8123-4')
    const asked: (string | undefined)[] = []
    const pages: JobPage[] = [
      { jobs: [], complete: false, next: theirs },
      // The caller's own job was created in the same millisecond as the cursor's, and is newer.
      { jobs, complete: false, next: own.replace('-7', '-6') },
      // The search stops within one millisecond, in which it has scanned as many jobs as it may.
      { jobs: [], complete: false, next: theirs },
      { jobs: [], complete: true, next: null },
    ]
    t.mock.method(parley.store, 'searchJobs', async ({ beforeJobId }: JobSearch) => {
      asked.push(beforeJobId)
      return pages.shift() ?? assert.fail('it was asked again')
    })
    const time = leastJobId(theirMs + 1)
    assert.deepEqual(await list(caller, ''), { jobs: [], next: time })
    assert.equal((await list(caller, '')).next, own)
    assert.equal((await list(caller, `after=${time}`)).next, theirs)
    assert.equal((await list(caller, `after=${theirs.toUpperCase()}`)).next, null)
    assert.deepEqual(asked, [undefined, undefined, time, theirs])
  })
})
