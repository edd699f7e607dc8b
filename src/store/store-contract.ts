/**
 * The one suite that every store passes. An implementation's own test is nothing but a call of this, with how to open a
 * store on an empty place and how to open the same place again.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, type TestContext, test } from 'node:test'
import type { Callback, ClaimedJob, Job, Outcome, Usage } from '../job/job.ts'
import { jobIdMaker } from '../job/job-id.ts'
import type { NewKey } from './account-store.ts'
import type { Acceptance, Claim, Settlement, Store } from './store.ts'

/** Where stores of one test live: `open` may be called again after a close, and finds what was stored. */
export interface Place {
  open(): Promise<Store>
}

export const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5)
const DAY_MS = 86_400_000

let nowMs = START_MS
const makeId = jobIdMaker(
  () => nowMs,
  (bytes) => randomBytes(bytes).toString('hex'),
)

export function newJob(over: Partial<Job> = {}): Job {
  return {
    id: makeId(),
    account: 'acme',
    tier: 'user_max',
    model: 'gpt-5-mini',
    messages: [{ role: 'user', content: 'Hello' }],
    responseFormat: { format: 'text' },
    cacheTtlS: 300,
    callback: null,
    createdAtMs: nowMs,
    inputTokens: 12,
    ...over,
  }
}

export function acceptance(
  jobs: readonly Job[],
  over: Partial<Acceptance> & { handedOff?: boolean; step?: number } = {},
) {
  const { handedOff = false, step = 1000, ...rest } = over
  return {
    node: 'node-a',
    jobs: jobs.map((job) => ({ job, handedOff, step })),
    idempotency: null,
    nowMs,
    ...rest,
  } satisfies Acceptance
}

const USAGE: Usage = {
  target: 'openai/gpt-5-mini',
  input_tokens: 3,
  output_tokens: 5,
  calls: 1,
  cache_hit: false,
  repaired: false,
}

export const COMPLETED: Outcome = { status: 'completed', contentJson: '"Hello back"' }

export function settlement(claim: Claim, over: Partial<Settlement> = {}): Settlement {
  return {
    node: 'node-a',
    jobId: claim.jobId,
    attempt: claim.attempt,
    outcome: COMPLETED,
    usage: USAGE,
    receiptJson: '{}',
    keep: null,
    nowMs,
    ...over,
  }
}

const claimOf = ({ id, attempt }: ClaimedJob): Claim => ({ jobId: id, attempt })
const expiry = (atMs = nowMs, retentionMs = DAY_MS) => ({ nowMs: atMs, retentionMs })
const ids = (jobs: readonly Job[]) => jobs.map(({ id }) => id)

export function storeContract(name: string, makePlace: (t: TestContext) => Promise<Place>): void {
  /** A test on an empty store that is closed after it. */
  const on: On = (title, work) => {
    void test(title, async (t) => {
      nowMs = START_MS
      const place = await makePlace(t)
      const store = await place.open()
      t.after(() => store.close())
      await work(store, t, place)
    })
  }

  describe(`${name}: accept`, () => acceptTests(on))
  describe(`${name}: claim`, () => claimTests(on))
  describe(`${name}: settle`, () => settleTests(on))
  describe(`${name}: give back and reclaim`, () => returnTests(on))
  describe(`${name}: read and recall`, () => readTests(on))
  describe(`${name}: expire`, () => expireTests(on))
  describe(`${name}: accounts`, () => accountTests(on))
  describe(`${name}: durability`, () => durabilityTests(makePlace))
}

type On = (title: string, work: (store: Store, t: TestContext, place: Place) => Promise<void>) => void

function acceptTests(on: On): void {
  on('stores jobs that then read as pending', async (store) => {
    const job = newJob()
    assert.deepEqual(await store.accept(acceptance([job])), { kind: 'accepted' })
    assert.deepEqual(await store.read('acme', job.id, expiry()), {
      id: job.id,
      status: 'pending',
      createdAtMs: START_MS,
      contentJson: null,
      errorJson: null,
    })
  })

  on('stores a handed-off job as assigned to the accepting node, attempt 1', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    assert.equal((await store.read('acme', job.id, expiry()))?.status, 'assigned')
    assert.deepEqual(await store.claim('node-b', 10, nowMs), [])
    assert.equal(await store.settle(settlement({ jobId: job.id, attempt: 1 })), 'settled')
  })

  on('stores all jobs of an acceptance or none', async (store) => {
    const [first, twice] = [newJob(), newJob()]
    await assert.rejects(store.accept(acceptance([first, twice, twice])))
    assert.equal(await store.read('acme', first.id, expiry()), null)
    assert.equal((await store.depth()).waiting, 0)
  })

  on('keeps a failing acceptance from its neighbours in the same group', async (store) => {
    const [good, twice, other] = [newJob(), newJob(), newJob()]
    const results = await Promise.allSettled([
      store.accept(acceptance([good])),
      store.accept(acceptance([twice, twice])),
      store.accept(acceptance([other])),
    ])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
    assert.deepEqual(ids(await store.claim('node-a', 10, nowMs)).sort(), ids([good, other]).sort())
  })

  on(
    'remembers an idempotency key: the same request, another request, and when it has ended',
    async (store) => {
      const key = { key: 'k1', fingerprint: 'f1', untilMs: nowMs + 1000 }
      const [first, again] = [newJob(), newJob()]
      await store.accept(acceptance([first], { idempotency: key }))
      const repeated = await store.accept(acceptance([again], { idempotency: key }))
      assert.deepEqual(repeated, { kind: 'repeated', jobIds: [first.id] })
      assert.equal(await store.read('acme', again.id, expiry()), null)

      const other = await store.accept(acceptance([newJob()], { idempotency: { ...key, fingerprint: 'f2' } }))
      assert.deepEqual(other, { kind: 'conflict' })

      const elsewhere = newJob({ account: 'other' })
      assert.deepEqual(await store.accept(acceptance([elsewhere], { idempotency: key })), {
        kind: 'accepted',
      })

      const later = acceptance([newJob()], {
        idempotency: { ...key, fingerprint: 'f3' },
        nowMs: nowMs + 1001,
      })
      assert.deepEqual(await store.accept(later), { kind: 'accepted' })
    },
  )

  on('lets one of many concurrent acceptances with one key through', async (store) => {
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: nowMs + 1000 }
    const jobs = Array.from({ length: 20 }, () => newJob())
    const results = await Promise.all(jobs.map((job) => store.accept(acceptance([job], { idempotency }))))
    assert.equal(results.filter(({ kind }) => kind === 'accepted').length, 1)
    const repeated = results.flatMap((result) => (result.kind === 'repeated' ? result.jobIds : []))
    assert.equal(new Set(repeated).size, 1)
    assert.equal((await store.depth()).waiting, 1)
  })
}

function claimTests(on: On): void {
  on('gives back every field of a job as it was accepted', async (store) => {
    const callback: Callback = {
      url: 'https://example.com/hook',
      headers: { 'x-a': 'ä' },
      payloadJson: '{"big":12345678901234567890,"huge":1e400}',
    }
    const messages = [
      { role: 'developer', content: 'nul \u0000, half \ud800, whole 😀, line\u2028' },
      { role: 'user', content: '' },
    ] as const
    const responseFormat = { format: 'json', schema: { type: 'object', __proto__x: 1 } } as const
    const job = newJob({ callback, messages, responseFormat, cacheTtlS: 180.5 })
    await store.accept(acceptance([job]))
    const [claimed] = await store.claim('node-a', 1, nowMs)
    assert.deepEqual(claimed, { ...job, attempt: 1, deaths: 0 })
  })

  on('gives each job to one node only', async (store) => {
    const jobs = Array.from({ length: 60 }, () => newJob())
    await store.accept(acceptance(jobs))
    const claims = await Promise.all(
      Array.from({ length: 12 }, (_, index) => store.claim(index % 2 ? 'node-a' : 'node-b', 10, nowMs)),
    )
    assert.deepEqual(ids(claims.flat()).sort(), ids(jobs).sort())
  })

  on('is fair: a backlog of one account does not delay the job of another', async (store) => {
    await store.accept(acceptance(Array.from({ length: 50 }, () => newJob({ account: 'greedy' }))))
    await store.claim('node-a', 5, nowMs)
    const single = newJob({ account: 'modest' })
    await store.accept(acceptance([single]))
    const next = await store.claim('node-a', 2, nowMs)
    assert.ok(ids(next).includes(single.id))
  })

  on('shares by weight: half the step, twice the jobs', async (store) => {
    await store.accept(
      acceptance(
        Array.from({ length: 40 }, () => newJob({ account: 'one' })),
        { step: 1000 },
      ),
    )
    await store.accept(
      acceptance(
        Array.from({ length: 40 }, () => newJob({ account: 'two' })),
        { step: 500 },
      ),
    )
    const claimed = await store.claim('node-a', 30, nowMs)
    const ofTwo = claimed.filter(({ account }) => account === 'two').length
    assert.ok(ofTwo >= 19 && ofTwo <= 21, `${ofTwo} of 30`)
  })

  on('claims one account in the order of acceptance', async (store) => {
    const jobs = Array.from({ length: 20 }, () => newJob())
    for (const job of jobs) await store.accept(acceptance([job]))
    assert.deepEqual(ids(await store.claim('node-a', 20, nowMs)), ids(jobs))
  })
}

function settleTests(on: On): void {
  on('stores an outcome once', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const claim = { jobId: job.id, attempt: 1 }
    assert.equal(await store.settle(settlement(claim)), 'settled')
    const failed: Outcome = { status: 'failed', error: { code: 'model_error', message: 'No.' } }
    assert.equal(await store.settle(settlement(claim, { outcome: failed })), 'stale')
    const read = await store.read('acme', job.id, expiry())
    assert.deepEqual([read?.status, read?.contentJson, read?.errorJson], ['completed', '"Hello back"', null])
  })

  on('stores a failure as it is told', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const error = {
      code: 'validation_error',
      message: 'No.',
      errors: ['a: must be'],
      raw_text: '\u0000',
    } as const
    const outcome: Outcome = { status: 'failed', error }
    await store.settle(settlement({ jobId: job.id, attempt: 1 }, { outcome }))
    const read = await store.read('acme', job.id, expiry())
    assert.deepEqual(
      [read?.status, read?.contentJson, JSON.parse(read?.errorJson ?? '')],
      ['failed', null, error],
    )
  })

  on('refuses another node, another attempt, a waiting job, and one that never was', async (store) => {
    const [held, waiting] = [newJob(), newJob()]
    await store.accept(acceptance([held], { handedOff: true }))
    await store.accept(acceptance([waiting]))
    const claim = { jobId: held.id, attempt: 1 }
    assert.equal(await store.settle(settlement(claim, { node: 'node-b' })), 'stale')
    assert.equal(await store.settle(settlement({ ...claim, attempt: 2 })), 'stale')
    assert.equal(await store.settle(settlement({ jobId: waiting.id, attempt: 0 })), 'stale')
    assert.equal(await store.settle(settlement({ jobId: newJob().id, attempt: 1 })), 'gone')
    assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
  })

  on('lets one of many concurrent settlements through', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        store.settle(
          settlement(
            { jobId: job.id, attempt: 1 },
            { outcome: { status: 'completed', contentJson: `${index}` } },
          ),
        ),
      ),
    )
    assert.equal(results.filter((result) => result === 'settled').length, 1)
  })
}

function returnTests(on: On): void {
  on('a job given back is claimed next, still reads assigned, and spends no death', async (store) => {
    const [first, second] = [newJob(), newJob()]
    await store.accept(acceptance([first, second]))
    const [held] = await store.claim('node-a', 1, nowMs)
    assert.ok(held)
    await store.giveBack('node-a', [claimOf(held)])
    assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
    const [again] = await store.claim('node-b', 1, nowMs)
    assert.deepEqual([again?.id, again?.attempt, again?.deaths], [held.id, 2, 0])
    assert.equal(await store.settle(settlement(claimOf(held))), 'stale')
  })

  on('gives back only what the node holds under that attempt', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    await store.giveBack('node-b', [{ jobId: job.id, attempt: 1 }])
    await store.giveBack('node-a', [{ jobId: job.id, attempt: 2 }])
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 1, oldestCreatedAtMs: null })
  })

  on('reclaims the jobs of a dead node and counts a death of each', async (store, _t, place) => {
    const [mine, theirs] = [newJob(), newJob()]
    await store.accept(acceptance([mine], { handedOff: true }))
    await store.accept(acceptance([theirs], { handedOff: true, node: 'node-b' }))
    await store.close()
    const next = await place.open()
    assert.equal(await next.reclaim('node-a'), 1)
    const claimed = await next.claim('node-a', 10, nowMs)
    assert.deepEqual(
      claimed.map(({ id, attempt, deaths }) => ({ id, attempt, deaths })),
      [{ id: theirs.id, attempt: 2, deaths: 1 }],
    )
    assert.equal(await next.settle(settlement({ jobId: mine.id, attempt: 1 })), 'settled')
    await next.close()
  })

  on('knows how long the line is, and how old', async (store) => {
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 0, oldestCreatedAtMs: null })
    const old = newJob()
    await store.accept(acceptance([old]))
    nowMs += 5000
    await store.accept(acceptance([newJob(), newJob()]))
    assert.deepEqual(await store.depth(), { waiting: 3, assigned: 0, oldestCreatedAtMs: old.createdAtMs })
    await store.claim('node-a', 2, nowMs)
    const { waiting, assigned, oldestCreatedAtMs } = await store.depth()
    assert.deepEqual([waiting, assigned, oldestCreatedAtMs], [1, 2, nowMs])
  })
}

function readTests(on: On): void {
  on('shows a job to its account only', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job]))
    assert.equal(await store.read('other', job.id, expiry()), null)
    assert.equal(await store.read('acme', newJob().id, expiry()), null)
    assert.equal(await store.read('acme', 'no id at all', expiry()), null)
  })

  on('recalls a kept answer until its time, the latest one first', async (store) => {
    const [first, second] = [newJob(), newJob()]
    await store.accept(acceptance([first, second], { handedOff: true }))
    const keep = (untilMs: number) => ({ fingerprint: 'f'.repeat(22), untilMs })
    await store.settle(settlement({ jobId: first.id, attempt: 1 }, { keep: keep(nowMs + 300_000) }))
    assert.equal(await store.recall('f'.repeat(22), nowMs), '"Hello back"')
    assert.equal(await store.recall('g'.repeat(22), nowMs), null)
    assert.equal(await store.recall('f'.repeat(22), nowMs + 300_000), null)
    const outcome: Outcome = { status: 'completed', contentJson: '"later"' }
    await store.settle(settlement({ jobId: second.id, attempt: 1 }, { outcome, keep: keep(nowMs + 400_000) }))
    assert.equal(await store.recall('f'.repeat(22), nowMs), '"later"')
  })

  on('does not keep the answer of a stale settlement', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const keep = { fingerprint: 's'.repeat(22), untilMs: nowMs + 300_000 }
    await store.settle(settlement({ jobId: job.id, attempt: 7 }, { keep }))
    assert.equal(await store.recall(keep.fingerprint, nowMs), null)
  })
}

/** Takes steps until none finds work, and fails if that takes absurdly many. */
async function expireAll(store: Store, atMs: number, retentionMs: number): Promise<void> {
  for (let step = 0; step < 1000; step++) if (!(await store.expire({ nowMs: atMs, retentionMs }))) return
  assert.fail('expiry does not come to an end')
}

function expireTests(on: On): void {
  on('an ended job is readable for its retention, judged at the read', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    await store.settle(settlement({ jobId: job.id, attempt: 1 }, { nowMs: nowMs + 5000 }))
    const end = nowMs + 5000 + 1000 * 1000
    assert.ok(await store.read('acme', job.id, expiry(end - 1, 1_000_000)))
    assert.equal(await store.read('acme', job.id, expiry(end, 1_000_000)), null)
  })

  on('a job is readable as long as its answer is kept, and while its callback is owed', async (store) => {
    const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
    const [short, owing] = [newJob({ cacheTtlS: 3600 }), newJob({ callback })]
    await store.accept(acceptance([short, owing], { handedOff: true }))
    for (const { id } of [short, owing]) await store.settle(settlement({ jobId: id, attempt: 1 }))
    const later = nowMs + 3_599_000
    assert.ok(await store.read('acme', short.id, expiry(later, 1000)))
    assert.equal(await store.read('acme', short.id, expiry(later + 1000, 1000)), null)
    await expireAll(store, nowMs + 30 * DAY_MS, 1000)
    assert.ok(await store.read('acme', owing.id, expiry(nowMs + 30 * DAY_MS, 1000)))
  })

  on('deletes what has expired, and nothing else, in bounded steps', async (store) => {
    const old = Array.from({ length: 1000 }, () => newJob())
    const waiting = newJob()
    for (let from = 0; from < old.length; from += 100) {
      await store.accept(acceptance(old.slice(from, from + 100), { handedOff: true }))
    }
    await store.accept(acceptance([waiting]))
    await Promise.all(old.map(({ id }) => store.settle(settlement({ jobId: id, attempt: 1 }))))
    nowMs += 2 * DAY_MS
    const young = newJob()
    await store.accept(acceptance([young], { handedOff: true }))
    await store.settle(settlement({ jobId: young.id, attempt: 1 }))

    assert.equal(await store.expire(expiry()), true, 'one step is not enough for a thousand jobs')
    await expireAll(store, nowMs, DAY_MS)
    const forEver = expiry(nowMs, 1000 * DAY_MS)
    for (const { id } of [old[0], old[500], old[999]].filter((job) => job !== undefined)) {
      assert.equal(await store.read('acme', id, forEver), null)
    }
    assert.equal((await store.read('acme', waiting.id, forEver))?.status, 'pending')
    assert.equal((await store.read('acme', young.id, forEver))?.status, 'completed')
  })
}

function accountTests(on: On): void {
  const key = (over: Partial<NewKey> = {}): NewKey => ({
    id: 'key_1',
    hash: 'h1',
    account: 'acme',
    tier: 'user_go',
    secret: 'whsec_1',
    createdAtMs: START_MS,
    expiresAtMs: null,
    ...over,
  })

  on('makes an account with its first key, and finds keys by their hash', async (store) => {
    assert.equal(await store.hasAccounts(), false)
    assert.deepEqual(await store.createKey(key()), { kind: 'created' })
    assert.deepEqual(await store.createKey(key({ id: 'key_2', hash: 'h2', expiresAtMs: 9 })), {
      kind: 'created',
    })
    assert.equal(await store.hasAccounts(), true)
    const common = { account: 'acme', tier: 'user_go', createdAtMs: START_MS, revokedAtMs: null }
    assert.deepEqual(await store.findKey('h2'), { id: 'key_2', ...common, expiresAtMs: 9 })
    assert.equal(await store.findKey('h3'), null)
    assert.deepEqual(
      (await store.listKeys()).map(({ id }) => id),
      ['key_1', 'key_2'],
    )
  })

  on('does not change the tier of an account by a new key', async (store) => {
    await store.createKey(key())
    const other = await store.createKey(key({ id: 'key_2', hash: 'h2', tier: 'user_max' }))
    assert.deepEqual(other, { kind: 'other tier', tier: 'user_go' })
    assert.equal((await store.listKeys()).length, 1)
    assert.equal(await store.setTier('acme', 'user_max'), true)
    assert.equal((await store.findKey('h1'))?.tier, 'user_max')
    assert.equal(await store.setTier('nobody', 'user_max'), false)
  })

  on('revokes a key once', async (store) => {
    await store.createKey(key())
    assert.equal(await store.revokeKey('key_1', 5), 'revoked')
    assert.equal(await store.revokeKey('key_1', 6), 'revoked before')
    assert.equal(await store.revokeKey('key_9', 6), 'unknown')
    assert.equal((await store.findKey('h1'))?.revokedAtMs, 5)
  })

  on('rotates the signing secret and keeps the one before', async (store) => {
    await store.createKey(key())
    assert.deepEqual(await store.secrets('acme'), { current: 'whsec_1', previous: null })
    assert.equal(await store.rotateSecret('acme', 'whsec_2', 7), true)
    const previous = { secret: 'whsec_1', rotatedAtMs: 7 }
    assert.deepEqual(await store.secrets('acme'), { current: 'whsec_2', previous })
    assert.equal(await store.rotateSecret('nobody', 'whsec_3', 7), false)
    assert.equal(await store.secrets('nobody'), null)
  })
}

function durabilityTests(makePlace: (t: TestContext) => Promise<Place>): void {
  test('what was stored is there after the next opening', async (t) => {
    nowMs = START_MS
    const place = await makePlace(t)
    const [done, waiting] = [newJob(), newJob({ account: 'other' })]
    const keep = { fingerprint: 'd'.repeat(22), untilMs: nowMs + 300_000 }
    const first = await place.open()
    await first.accept(acceptance([done], { handedOff: true }))
    await first.accept(acceptance([waiting]))
    await first.settle(settlement({ jobId: done.id, attempt: 1 }, { keep }))
    await first.close()

    const second = await place.open()
    t.after(() => second.close())
    assert.equal((await second.read('acme', done.id, expiry()))?.contentJson, '"Hello back"')
    assert.equal(await second.recall(keep.fingerprint, nowMs), '"Hello back"')
    assert.equal((await second.depth()).waiting, 1)
    assert.deepEqual(ids(await second.claim('node-c', 5, nowMs)), [waiting.id])
  })

  test('fair order outlives the process', async (t) => {
    nowMs = START_MS
    const place = await makePlace(t)
    const first = await place.open()
    await first.accept(acceptance(Array.from({ length: 20 }, () => newJob({ account: 'greedy' }))))
    await first.claim('node-a', 10, nowMs)
    await first.close()
    const second = await place.open()
    t.after(() => second.close())
    const single = newJob({ account: 'modest' })
    await second.accept(acceptance([newJob({ account: 'greedy' })]))
    await second.accept(acceptance([single]))
    assert.ok(ids(await second.claim('node-b', 2, nowMs)).includes(single.id))
  })

  test('writes handed over before a close are stored', async (t) => {
    nowMs = START_MS
    const place = await makePlace(t)
    const first = await place.open()
    const jobs = Array.from({ length: 50 }, () => newJob())
    const accepted = Promise.all(jobs.map((job) => first.accept(acceptance([job]))))
    await first.close()
    await accepted
    const second = await place.open()
    t.after(() => second.close())
    assert.equal((await second.depth()).waiting, 50)
  })
}
