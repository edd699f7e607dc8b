/** Tests reads of several jobs, `GET /api/v1/messages?ids=`: at once, or once any or all of them have ended. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job, type Parley } from '../parley.ts'
import { enqueued, granted, invalid, refused } from './expect.ts'
import { openLine } from './raw-http.ts'
import { pendingResponsesAre, type Stage, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const MIB = 1024 * 1024

/** Creates jobs whose calls the model server answers only when released; returns the job IDs. */
async function openJobs({ parley, models }: Stage, key: string, count: number): Promise<string[]> {
  models.script = () => reply.stall()
  const calls = models.requests.length
  const jobs = Array.from({ length: count }, () =>
    job({ messages: [{ role: 'user', content: randomUUID() }] }),
  )
  const ids = enqueued(await parley.post(BATCHES, jobs, key), count)
  await models.received(calls + count)
  return ids
}

async function endedJobs(
  { parley, models }: Stage,
  key: string,
  answers: readonly string[],
): Promise<string[]> {
  const ids: string[] = []
  for (const answer of answers) {
    models.script = () => reply.text(answer)
    const messages = [{ role: 'user', content: randomUUID() }]
    const [id = ''] = enqueued(await parley.post(BATCHES, [job({ messages })], key), 1)
    await parley.ended(id, key)
    ids.push(id)
  }
  return ids
}

const several = (parley: Parley, key: string, ids: readonly string[], more = '') =>
  parley.get(`${MESSAGES}?ids=${ids.join(',')}${more}`, key)

/** Starts a read that waits. Its response is a promise inside an object, because `await` would resolve a bare promise. */
async function waitingFor(
  t: TestContext,
  { parley }: Stage,
  key: string,
  ids: readonly string[],
  more: string,
  pending: number,
): Promise<{ readonly answer: Promise<Answer> }> {
  const answer = several(parley, key, ids, more)
  await pendingResponsesAre(t, parley, pending)
  return { answer }
}

const statuses = ({ jobs }: Answer['body']) => jobs.map(({ status }: { status: string }) => status)
const idsOf = ({ jobs }: Answer['body']) => jobs.map(({ job_id }: { job_id: string }) => job_id)

onEachStore(() => {
  test('the objects are those of single reads, in the order asked, each once', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const key = await parley.key()
    const ended = await endedJobs(stage, key, ['one', 'two'])
    const [open = ''] = await openJobs(stage, key, 1)
    const ids = [ended[1] ?? '', open, ended[0] ?? '']
    const singles = await Promise.all(ids.map((id) => parley.get(`${MESSAGES}/${id}`, key)))
    const answer = await several(parley, key, [...ids, open, ended[0]?.toUpperCase() ?? ''])
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.equal(answer.headers.get('retry-after'), null)
    const data = granted(answer, 200)
    assert.deepEqual(data, { jobs: singles.map(({ body }) => body.data), not_found: [], more: [] })
    assert.equal(answer.body.message, '2 of 3 jobs have finished.')
    const repeated = await parley.get(`${MESSAGES}?${ids.map((id) => `ids=${id}`).join('&')}`, key)
    assert.equal(repeated.text, answer.text)
  })

  test('unknown, expired and other accounts’ jobs are in not_found, and cannot be distinguished', async (t) => {
    const stage = await startStage(t, { settings: { jobs: { retention_seconds: 300 } } })
    const { parley, clock } = stage
    const [key, other] = [await parley.key('user_max', 'mine'), await parley.key('user_max', 'theirs')]
    const [expired = ''] = await endedJobs(stage, key, ['old'])
    clock.advance(300_000)
    const [theirs = ''] = await endedJobs(stage, other, ['new'])
    const [open = ''] = await openJobs(stage, other, 1)
    const unknown = randomUUID()
    const answers = await Promise.all(
      [expired, theirs, open, unknown].map((id) => several(parley, key, [id])),
    )
    const shapes = answers.map(({ text }, index) =>
      text.replace([expired, theirs, open, unknown][index] ?? '', 'ID'),
    )
    assert.equal(new Set(shapes).size, 1)
    const [mine = ''] = await endedJobs(stage, key, ['mine'])
    const data = granted(await several(parley, key, [unknown, mine, theirs, open]), 200)
    assert.deepEqual([idsOf(data), data.not_found], [[mine], [unknown, theirs, open]])
    // Unknown jobs count as ended, so that a wait does not reveal when jobs of others end.
    for (const until of ['any', 'all']) {
      const answer = await several(parley, key, [unknown, open], `&wait=60&wait_for=${until}`)
      assert.deepEqual(granted(answer, 200).not_found, [unknown, open])
    }
  })

  test('a wait for all ends with the last job, one for any with the first', async (t) => {
    const stage = await startStage(t)
    const { parley, clock } = stage
    const key = await parley.key()
    const ids = await openJobs(stage, key, 3)
    const all = await waitingFor(t, stage, key, ids, '&wait=60', 3)
    const any = await waitingFor(t, stage, key, ids, '&wait=60&wait_for=any', 6)
    const end = async (id: string) => {
      assert.equal(await parley.store.cancelJob(id, clock.nowMs()), 'cancelled')
      clock.advance(500)
    }
    await end(ids[1] ?? '')
    const first = granted(await any.answer, 200)
    assert.deepEqual([idsOf(first), statuses(first)], [ids, ['assigned', 'failed', 'assigned']])
    await pendingResponsesAre(t, parley, 2)
    await end(ids[0] ?? '')
    await pendingResponsesAre(t, parley, 1)
    await end(ids[2] ?? '')
    const last = granted(await all.answer, 200)
    assert.deepEqual([idsOf(last), statuses(last)], [ids, ['failed', 'failed', 'failed']])
    await pendingResponsesAre(t, parley, 0)
  })

  test('a wait for any returns at once when one has ended, and one for all waits for the open ones only', async (t) => {
    const stage = await startStage(t)
    const { parley, models } = stage
    const key = await parley.key()
    const ended = await endedJobs(stage, key, ['one'])
    const open = await openJobs(stage, key, 1)
    const ids = [...ended, ...open]
    assert.deepEqual(statuses(granted(await several(parley, key, ids, '&wait=60&wait_for=any'), 200)), [
      'completed',
      'assigned',
    ])
    const all = await waitingFor(t, stage, key, ids, '&wait=60&wait_for=all', 1)
    models.release()
    assert.deepEqual(statuses(granted(await all.answer, 200)), ['completed', 'completed'])
  })

  test('when the time is over, the present states; a client that hangs up frees every slot', async (t) => {
    const stage = await startStage(t)
    const { parley, clock } = stage
    const key = await parley.key()
    const ids = await openJobs(stage, key, 2)
    const waiting = await waitingFor(t, stage, key, ids, '&wait=10', 2)
    clock.advance(10_000)
    const answer = await waiting.answer
    assert.deepEqual(statuses(granted(answer, 200)), ['assigned', 'assigned'])
    assert.equal(answer.headers.get('retry-after'), null)
    const line = openLine(parley)
    line.send(`GET ${MESSAGES}?ids=${ids}&wait=9 HTTP/1.1\r\nhost: parley\r\nx-api-key: ${key}\r\n\r\n`)
    await pendingResponsesAre(t, parley, 2)
    line.hangUp()
    await pendingResponsesAre(t, parley, 0)
    assert.ok(!clock.pending().includes(9000))
  })

  test('each open job is one wait: without a slot for all of them, the present states and Retry-After', async (t) => {
    const stage = await startStage(t, { settings: { sync: { max_waiters: 3 } } })
    const { parley, models } = stage
    const key = await parley.key()
    const ids = await openJobs(stage, key, 2)
    const one = await waitingFor(t, stage, key, ids.slice(0, 1), '&wait=60', 1)
    const two = parley.get(`${MESSAGES}/${ids[0]}?wait=60`, key)
    await pendingResponsesAre(t, parley, 2)
    const over = await several(parley, key, ids, '&wait=60')
    assert.deepEqual(statuses(granted(over, 200)), ['assigned', 'assigned'])
    assert.equal(over.headers.get('retry-after'), '2')
    await pendingResponsesAre(t, parley, 2)
    models.release()
    granted(await one.answer, 200)
    granted(await two, 200)
  })

  test('objects up to 8 MiB: the ids of those that did not fit are in more, in the order asked', async (t) => {
    const stage = await startStage(t)
    const { parley } = stage
    const key = await parley.key()
    const sizes = [9, 3, 3, 3, 1]
    const answers = sizes.map((mib) => 'x'.repeat(mib * MIB - 1000))
    const ids = await endedJobs(stage, key, answers)
    const [open = ''] = await openJobs(stage, key, 1)
    const read = async (asked: readonly (string | undefined)[]) => {
      const answer = await several(parley, key, asked.map(String))
      const data = granted(answer, 200)
      return { found: idsOf(data), more: data.more, length: answer.text.length }
    }
    // The first job is included, however large it is.
    const alone = await read([...ids, open])
    assert.deepEqual([alone.found, alone.more], [[ids[0]], [...ids.slice(1), open]])
    const some = await read([...alone.more])
    assert.deepEqual([some.found, some.more], [[ids[1], ids[2], ids[4], open], [ids[3]]])
    assert.ok(some.length < 8 * MIB)
    const rest = await read(some.more)
    assert.deepEqual([rest.found, rest.more], [[ids[3]], []])
  })

  test('several jobs count as one read', async (t) => {
    const stage = await startStage(t, { settings: { tiers: { user_max: { reads_per_minute: 2 } } } })
    const { parley } = stage
    const key = await parley.key()
    const ids = Array.from({ length: 100 }, () => randomUUID())
    for (const remaining of ['1', '0']) {
      const answer = await several(parley, key, ids, '&wait=1')
      assert.deepEqual(granted(answer, 200).not_found, ids)
      assert.equal(answer.headers.get('ratelimit-remaining'), remaining)
    }
    refused(await several(parley, key, ids), 429)
  })

  test('400 for ids that are none, too many, or combined with what belongs to a list', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const id = randomUUID()
    const many = Array.from({ length: 101 }, () => randomUUID()).join(',')
    for (const [query, details] of [
      ['ids=', /^ids\[0\]: is not a job ID/],
      [`ids=${id},`, /^ids\[1\]: is not a job ID/],
      [`ids=${id},%20${randomUUID()}`, /^ids\[1\]: is not a job ID/],
      [`ids=${id},%00`, /^ids\[1\]: is not a job ID/],
      [`ids=${many}`, /^ids: must NOT have more than 100 items/],
      [`ids=${id}&limit=1`, /^ids: cannot be combined with limit, after or status/],
      [`ids=${id}&after=${id}`, /^ids: cannot be combined/],
      [`ids=${id}&status=failed`, /^ids: cannot be combined/],
      [`ids=${id}&wait=121`, /^wait: /],
      [`ids=${id}&wait_for=some`, /^wait_for: must be one of all, any/],
      [`ids=${id}&wiat=1`, /^wiat: /],
      [`ids[]=${id}`, /is not a known field/],
    ] as const) {
      invalid(await parley.get(`${MESSAGES}?${query}`, key), details)
    }
    refused(await parley.get(`${MESSAGES}?ids=${id}`), 401)
  })

  test('a wait for several on another node ends without a poll', async (t) => {
    const stage = await startStage(t)
    const { parley, models } = stage
    if (!parley.database.startsWith('postgres')) return t.skip('a file has one node')
    const other = await startStage(t, { after: stage })
    const key = await parley.key()
    const ids = await openJobs(stage, key, 20)
    const waiting = await waitingFor(t, other, key, ids, '&wait=60', 20)
    models.release()
    // The clock stands still, so Parley doesn't poll the database and must have been notified.
    const data = granted(await waiting.answer, 200)
    assert.deepEqual([idsOf(data), new Set(statuses(data))], [ids, new Set(['completed'])])
  })
})
