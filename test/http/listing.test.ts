/** Tests the list of an account's own jobs, `GET /api/v1/messages`. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { leastJobId } from '../../src/job/job-id.ts'
import type { JobPage, JobSearch } from '../../src/store/job-search-store.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job, type Parley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { enqueued, granted, invalid, refused } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'

const text = (content: string, over: object = {}) => job({ messages: [{ role: 'user', content }], ...over })

/** Follows `next` to the last page; returns all pages. */
async function pagesOf(parley: Parley, key: string, query: string, first = ''): Promise<Answer['body'][]> {
  const pages: Answer['body'][] = []
  for (let after = first; ; ) {
    const page = granted(await parley.get(`${MESSAGES}?${query}${after}`, key), 200)
    pages.push(page)
    if (page.next === null) return pages
    after = `&after=${page.next}`
  }
}

onEachStore(() => {
  test('a list has the account’s own jobs, newest first, without their contents', async (t) => {
    const receiver = await startReceiver({}, t)
    const { parley, models, clock } = await startStage(t, {
      settings: { jobs: { concurrency: 1 }, callbacks: { allow_networks: ['127.0.0.0/8'] } },
      script: ({ text: asked }) => (asked.includes('refuse') ? reply.refusal('No.') : undefined),
    })
    const key = await parley.key('user_pro')
    const created = Math.floor(clock.nowMs() / 1000)
    const callback = { callback_url: receiver.url }
    const [done = ''] = enqueued(await parley.post(BATCHES, [text('answer', { callback })], key), 1)
    await parley.ended(done, key)
    await receiver.received(1)
    while ((await parley.store.findCallback(done))?.state !== 'delivered');
    const [refusedJob = ''] = enqueued(
      await parley.post(BATCHES, [text('refuse', { model: 'gpt-5' })], key),
      1,
    )
    await parley.ended(refusedJob, key)
    models.script = () => reply.stall()
    const called = models.requests.length
    const open = enqueued(await parley.post(BATCHES, [text('one'), text('two')], key), 2)
    await models.received(called + 1)
    await parley.post(BATCHES, [text('another’s')], await parley.key('user_max'))
    const common = { created_at: created, model: 'gpt-5-mini', error_code: null, callback: null }
    const expected = [
      { status: 'pending', job_id: open[1], ended_at: null, ...common },
      { status: 'assigned', job_id: open[0], ended_at: null, ...common },
      {
        status: 'failed',
        job_id: refusedJob,
        ended_at: created,
        ...common,
        model: 'gpt-5',
        error_code: 'content_policy_violation',
      },
      { status: 'completed', job_id: done, ended_at: created, ...common, callback: 'delivered' },
    ]
    const answer = await parley.get(MESSAGES, key)
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.deepEqual(granted(answer, 200), { jobs: expected, next: null })
    for (const status of ['pending', 'assigned', 'completed', 'failed']) {
      const of = granted(await parley.get(`${MESSAGES}?status=${status}`, key), 200)
      assert.deepEqual(of, { jobs: expected.filter((one) => one.status === status), next: null }, status)
    }
    assert.deepEqual(granted(await parley.get(MESSAGES, await parley.key('user_go')), 200).jobs, [])
  })

  test('pages follow each other without a gap or a repetition, whatever is created meanwhile', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const ids = enqueued(
      await parley.post(
        BATCHES,
        Array.from({ length: 7 }, () => job()),
        key,
      ),
      7,
    )
    for (const id of ids) await parley.ended(id, key)
    const first = granted(await parley.get(`${MESSAGES}?limit=3`, key), 200)
    await parley.ended(enqueued(await parley.post(BATCHES, [job()], key), 1)[0] ?? '', key)
    const rest = await pagesOf(parley, key, 'limit=3', `&after=${first.next}`)
    const seen = [first, ...rest].flatMap(({ jobs }) => jobs.map((one: { job_id: string }) => one.job_id))
    assert.deepEqual(seen, ids.toReversed())
    assert.deepEqual(
      rest.map(({ jobs }) => jobs.length),
      [3, 1],
    )
    const exact = await pagesOf(parley, key, 'limit=8')
    assert.deepEqual(
      exact.map(({ jobs, next }) => [jobs.length, next]),
      [[8, null]],
    )
  })

  test('an expired and a deleted job are not in the list', async (t) => {
    const { parley, clock } = await startStage(t, { settings: { jobs: { retention_seconds: 300 } } })
    const key = await parley.key()
    const [expired = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await parley.ended(expired, key)
    clock.advance(300_000)
    const [one = '', two = ''] = enqueued(await parley.post(BATCHES, [job(), job()], key), 2)
    for (const id of [one, two]) await parley.ended(id, key)
    assert.equal(await parley.store.deleteJob(one), 'deleted')
    const { jobs } = granted(await parley.get(MESSAGES, key), 200)
    assert.deepEqual(
      jobs.map((found: { job_id: string }) => found.job_id),
      [two],
    )
  })

  test('400 for a parameter that is not one of the list’s, or goes with ids only', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
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
      invalid(await parley.get(`${MESSAGES}?${query}`, key), details)
    }
  })

  test('a list counts as ten reads, or as what is left of a smaller limit', async (t) => {
    const { parley, clock } = await startStage(t, {
      settings: { tiers: { user_go: { reads_per_minute: 25 }, user_free: { reads_per_minute: 3 } } },
    })
    const go = await parley.key('user_go')
    const remaining = async (path: string, status: number, key: string) => {
      const answer = await parley.get(path, key)
      assert.equal(answer.status, status, path)
      return answer.headers.get('ratelimit-remaining')
    }
    assert.equal(await remaining(MESSAGES, 200, go), '15')
    assert.equal(await remaining(`${MESSAGES}?status=pending`, 200, go), '5')
    const over = await parley.get(MESSAGES, go)
    assert.match(refused(over, 429).details ?? '', /^This key may make at most 25 reads per minute/)
    assert.ok(Number(over.headers.get('retry-after')) > 0)
    // A rejected list request does not count towards the limit.
    assert.equal(await remaining(`${MESSAGES}?ids=${randomUUID()}`, 200, go), '4')
    const free = await parley.key('user_free')
    assert.equal(await remaining(MESSAGES, 200, free), '0')
    assert.equal(await remaining(MESSAGES, 429, free), '0')
    clock.advance(60_000)
    assert.equal(await remaining(MESSAGES, 200, free), '0')
  })

  test('an account has two lists at once, and others are not held up by it', async (t) => {
    const { parley } = await startStage(t)
    const [mine, same, other] = [
      await parley.key('user_max', 'mine'),
      await parley.key('user_max', 'mine'),
      await parley.key('user_max', 'other'),
    ]
    const { searchJobs } = parley.store
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    let begun = 0
    const { promise: both, resolve: haveBegun } = Promise.withResolvers<void>()
    parley.store.searchJobs = async (search) => {
      begun += 1
      if (begun === 2) haveBegun()
      if (search.account === 'mine') await released
      return searchJobs(search)
    }
    const waiting = [parley.get(MESSAGES, mine), parley.get(MESSAGES, same)]
    await both
    const third = await parley.get(MESSAGES, mine)
    assert.equal(refused(third, 429).message, 'Too many concurrent list requests.')
    assert.equal(third.headers.get('retry-after'), '1')
    granted(await parley.get(MESSAGES, other), 200)
    release()
    for (const answer of await Promise.all(waiting)) granted(answer, 200)
    granted(await parley.get(MESSAGES, mine), 200)
  })

  test('where a search stops at its bound, the page is short, and its cursor is not another account’s id', async (t) => {
    const { parley, clock } = await startStage(t)
    const key = await parley.key('user_max', 'mine')
    const [own = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await parley.ended(own, key)
    const { jobs } = await parley.store.searchJobs({
      account: 'mine',
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
    parley.store.searchJobs = async ({ beforeJobId }: JobSearch) => {
      asked.push(beforeJobId)
      return pages.shift() ?? assert.fail('it was asked again')
    }
    const list = async (query: string) => granted(await parley.get(`${MESSAGES}?${query}`, key), 200)
    const time = leastJobId(theirMs + 1)
    assert.deepEqual(await list(''), { jobs: [], next: time })
    assert.equal((await list('')).next, own)
    assert.equal((await list(`after=${time}`)).next, theirs)
    assert.equal((await list(`after=${theirs.toUpperCase()}`)).next, null)
    assert.deepEqual(asked, [undefined, undefined, time, theirs])
  })
})
