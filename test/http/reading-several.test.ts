/** Tests reads of several jobs, `GET /api/v1/messages?ids=`: at once, or once any or all of them have ended. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import type { Answer } from '../parley.ts'
import { type Caller, callerOf, idsOf, MESSAGES, type Scene, says, shareStage, startScene } from './caller.ts'
import { granted, invalid, refused } from './expect.ts'
import { openLine } from './raw-http.ts'
import { pendingResponsesAre, startStage } from './stage.ts'

const MIB = 1024 * 1024

type Place = Pick<Scene, 'models' | 'caller'>

/** Creates jobs whose calls the model server answers only when released; returns the job IDs. */
async function openJobs({ models, caller }: Place, count: number): Promise<string[]> {
  models.script = () => reply.stall()
  const calls = models.requests.length
  const ids = await caller.enqueue(Array.from({ length: count }, () => says(randomUUID())))
  await models.received(calls + count)
  return ids
}

async function endedJobs({ models, caller }: Place, answers: readonly string[]): Promise<string[]> {
  const ids: string[] = []
  for (const answer of answers) {
    models.script = () => reply.text(answer)
    const [id = ''] = await caller.enqueue([says(randomUUID())])
    await caller.ended(id)
    ids.push(id)
  }
  return ids
}

const several = (caller: Caller, ids: readonly (string | undefined)[], more = '') =>
  caller.get(`${MESSAGES}?ids=${ids.join(',')}${more}`)
const statuses = (answer: Answer): string[] =>
  granted(answer, 200).jobs.map(({ status }: { status: string }) => status)

onEachStore(async () => {
  const begin = await shareStage()

  test('the objects are those of single reads, in the order asked, each once', async (t) => {
    const scene = await begin(t)
    const { caller } = scene
    const [one = '', two] = await endedJobs(scene, ['one', 'two'])
    const [open] = await openJobs(scene, 1)
    const ids = [two, open, one]
    const singles = await Promise.all(ids.map((id) => caller.read(id)))
    const answer = await several(caller, [...ids, open, one.toUpperCase()])
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.equal(answer.headers.get('retry-after'), null)
    const jobs = singles.map(({ body }) => body.data)
    assert.deepEqual(granted(answer, 200), { jobs, not_found: [], more: [] })
    assert.equal(answer.body.message, '2 of 3 jobs have finished.')
    const repeated = await caller.get(`${MESSAGES}?${ids.map((id) => `ids=${id}`).join('&')}`)
    assert.equal(repeated.text, answer.text)
  })

  test('unknown, expired and other accounts’ jobs are in not_found, and cannot be distinguished', async (t) => {
    const scene = await startScene(t, { settings: { jobs: { retention_seconds: 300 } } })
    const { parley, caller, clock } = scene
    const others = { ...scene, caller: await callerOf(parley, 'user_max', 'theirs') }
    const expired = await endedJobs(scene, ['old'])
    clock.advance(300_000)
    const [theirs, open] = [await endedJobs(others, ['new']), await openJobs(others, 1)]
    const unknown = randomUUID()
    const ids = [...expired, ...theirs, ...open, unknown]
    const shapes = ids.map(async (id) => (await several(caller, [id])).text.replace(id, 'ID'))
    assert.equal(new Set(await Promise.all(shapes)).size, 1)
    const mine = await endedJobs(scene, ['mine'])
    const data = granted(await several(caller, [unknown, ...mine, ...theirs, ...open]), 200)
    assert.deepEqual([idsOf(data), data.not_found], [mine, [unknown, ...theirs, ...open]])
    // Unknown jobs count as ended, so that a wait does not reveal when jobs of others end.
    for (const until of ['any', 'all']) {
      const answer = await several(caller, [unknown, ...open], `&wait=60&wait_for=${until}`)
      assert.deepEqual(granted(answer, 200).not_found, [unknown, ...open])
    }
  })

  test('a wait for all ends with the last job, one for any with the first', async (t) => {
    const scene = await begin(t)
    const { parley, caller, clock } = scene
    const ids = await openJobs(scene, 3)
    const [all, any] = ['all', 'any'].map((which) => several(caller, ids, `&wait=60&wait_for=${which}`))
    await pendingResponsesAre(t, parley, 6)
    /** Ends the job; resolves when this many responses are pending. */
    const end = async (index: number, pending: number) => {
      assert.equal(await parley.store.cancelJob(ids[index] ?? '', clock.nowMs()), 'cancelled')
      clock.advance(500)
      await pendingResponsesAre(t, parley, pending)
    }
    await end(1, 2)
    const first = (await any) as Answer
    assert.deepEqual([idsOf(first.body.data), statuses(first)], [ids, ['assigned', 'failed', 'assigned']])
    await end(0, 1)
    await end(2, 0)
    const last = (await all) as Answer
    assert.deepEqual([idsOf(last.body.data), statuses(last)], [ids, ['failed', 'failed', 'failed']])
  })

  test('a wait for any returns at once when one has ended, and one for all waits for the open ones only', async (t) => {
    const scene = await begin(t)
    const { parley, caller, models } = scene
    const ids = [...(await endedJobs(scene, ['one'])), ...(await openJobs(scene, 1))]
    const any = await several(caller, ids, '&wait=60&wait_for=any')
    assert.deepEqual(statuses(any), ['completed', 'assigned'])
    const all = several(caller, ids, '&wait=60')
    await pendingResponsesAre(t, parley, 1)
    models.release()
    assert.deepEqual(statuses(await all), ['completed', 'completed'])
  })

  test('when the time is over, the present states; a client that hangs up frees every slot', async (t) => {
    const scene = await begin(t)
    const { parley, caller, clock } = scene
    const ids = await openJobs(scene, 2)
    const waiting = several(caller, ids, '&wait=10')
    await pendingResponsesAre(t, parley, 2)
    clock.advance(10_000)
    const answer = await waiting
    assert.deepEqual(statuses(answer), ['assigned', 'assigned'])
    assert.equal(answer.headers.get('retry-after'), null)
    const line = openLine(parley)
    const path = `${MESSAGES}?ids=${ids}&wait=9`
    line.send(`GET ${path} HTTP/1.1\r\nhost: parley\r\nx-api-key: ${caller.key}\r\n\r\n`)
    await pendingResponsesAre(t, parley, 2)
    line.hangUp()
    await pendingResponsesAre(t, parley, 0)
    assert.ok(!clock.pending().includes(9000))
  })

  test('each open job is one wait: without a slot for all of them, the present states and Retry-After', async (t) => {
    const scene = await startScene(t, { settings: { sync: { max_waiters: 3 } } })
    const { parley, caller, models } = scene
    const ids = await openJobs(scene, 2)
    const waits = [several(caller, ids.slice(0, 1), '&wait=60'), caller.read(ids[0], '?wait=60')]
    await pendingResponsesAre(t, parley, 2)
    const over = await several(caller, ids, '&wait=60')
    assert.deepEqual(statuses(over), ['assigned', 'assigned'])
    assert.equal(over.headers.get('retry-after'), '2')
    await pendingResponsesAre(t, parley, 2)
    models.release()
    for (const answer of await Promise.all(waits)) granted(answer, 200)
  })

  test('objects up to 8 MiB: the ids of those that did not fit are in more, in the order asked', async (t) => {
    const scene = await startScene(t)
    const answers = [9, 3, 3, 3, 1].map((mib) => 'x'.repeat(mib * MIB - 1000))
    const ids = await endedJobs(scene, answers)
    const [open] = await openJobs(scene, 1)
    const read = async (asked: readonly (string | undefined)[]) => {
      const answer = await several(scene.caller, asked)
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
    const { caller } = await startScene(t, { settings: { tiers: { user_max: { reads_per_minute: 2 } } } })
    const ids = Array.from({ length: 100 }, () => randomUUID())
    for (const remaining of ['1', '0']) {
      const answer = await several(caller, ids, '&wait=1')
      assert.deepEqual(granted(answer, 200).not_found, ids)
      assert.equal(answer.headers.get('ratelimit-remaining'), remaining)
    }
    refused(await several(caller, ids), 429)
  })

  test('400 for ids that are none, too many, or combined with what belongs to a list', async (t) => {
    const { parley, caller } = await begin(t)
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
      invalid(await caller.get(`${MESSAGES}?${query}`), details)
    }
    refused(await parley.get(`${MESSAGES}?ids=${id}`), 401)
  })

  test('a wait for several on another node ends without a poll', async (t) => {
    const scene = await startScene(t)
    if (!scene.parley.store.shared) return t.skip('a file has one node')
    const { parley } = await startStage(t, { after: scene })
    const ids = await openJobs(scene, 20)
    const waiting = several(scene.caller.at(parley), ids, '&wait=60')
    await pendingResponsesAre(t, parley, 20)
    scene.models.release()
    // The clock stands still, so Parley doesn't poll the database and must have been notified.
    const answer = await waiting
    assert.deepEqual([idsOf(answer.body.data), new Set(statuses(answer))], [ids, new Set(['completed'])])
  })
})
