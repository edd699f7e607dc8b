/** Tests the list of an account's own jobs, `GET /api/v1/messages`. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { leastJobId } from '../../src/job/job-id.ts'
import type { JobPage, JobSearch } from '../../src/store/job-search-store.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import {
  type Caller,
  callerOf,
  idsOf,
  LOCAL_CALLBACKS,
  MESSAGES,
  says,
  shareStage,
  startScene,
} from './caller.ts'
import { granted, invalid, refused } from './expect.ts'

const list = async (caller: Caller, query: string) => granted(await caller.get(`${MESSAGES}?${query}`), 200)

/** Follows `next` to the last page; returns all pages. */
async function pagesOf(caller: Caller, query: string, first = ''): Promise<Answer['body'][]> {
  const pages: Answer['body'][] = []
  for (let after = first; ; ) {
    const page = await list(caller, `${query}${after}`)
    pages.push(page)
    if (page.next === null) return pages
    after = `&after=${page.next}`
  }
}

onEachStore(async () => {
  const begin = await shareStage()

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
    assert.match(refused(over, 429).details ?? '', /^This key may make at most 25 reads per minute/)
    assert.ok(Number(over.headers.get('retry-after')) > 0)
    // A rejected list request does not count towards the limit.
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
    assert.equal(refused(third, 429).message, 'Too many concurrent list requests.')
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
