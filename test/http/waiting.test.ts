/**
 * Tests reads that wait, `GET /api/v1/messages/{jobId}?wait=SECONDS`, and reads of several jobs, `GET /api/v1/messages?ids=`.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import {
  type Caller,
  callerOf,
  idsOf,
  MESSAGES,
  runningJob,
  type Scene,
  says,
  shareStage,
  startScene,
} from './caller.ts'
import { completed, failed, granted, invalid, refused, timedOut } from './expect.ts'
import { openLine } from './raw-http.ts'
import { pendingResponsesAre, startStage, stopAtOnce } from './stage.ts'

async function afterTime({ clock }: Pick<Scene, 'clock'>, ms: number, answer: Promise<Answer>) {
  clock.advance(ms - 1)
  assert.ok(clock.pending().includes(1), 'the wait ended early')
  clock.advance(1)
  return answer
}

function running(answer: Answer): string | null {
  assert.equal(granted(answer, 200).status, 'assigned')
  return answer.headers.get('retry-after')
}

const MIB = 1024 * 1024

type Place = Pick<Scene, 'models' | 'caller'>

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

onEachStore(() => {
  const begin = shareStage()

  test('4.2 a wait is answered as soon as the job has ended, with the same bytes as a read', async (t) => {
    const scene = await begin(t)
    const { parley, caller, models } = scene
    const id = await runningJob(scene)
    const waits = ['?wait=120', '?wait=0.5'].map((query) => caller.read(id, query))
    await pendingResponsesAre(t, parley, 2)
    models.release()
    const read = await caller.ended(id)
    for (const answer of await Promise.all(waits)) {
      assert.match(completed(answer), /^echo: /)
      assert.deepEqual([answer.text, answer.headers.get('retry-after')], [read.text, null])
    }
    await pendingResponsesAre(t, parley, 0)
  })

  test('4.2 a job that has ended is returned at once, and so is any without a wait', async (t) => {
    const scene = await startScene(t, { settings: { sync: { max_waiters: 0 } } })
    const { caller } = scene
    const done = await caller.enqueueOne()
    await caller.ended(done)
    assert.equal(completed(await caller.read(done, '?wait=120')), 'echo: Hello')
    const open = await runningJob(scene)
    for (const query of ['', '?wait=0', '?wait=0.0', '?other=1']) {
      assert.equal(running(await caller.read(open, query)), null)
    }
  })

  test('4.2 a wait whose time is over is answered with the current state, without Retry-After', async (t) => {
    const scene = await begin(t)
    const answer = scene.caller.read(await runningJob(scene), '?wait=1.5')
    await pendingResponsesAre(t, scene.parley, 1)
    assert.equal(running(await afterTime(scene, 1500, answer)), null)
    await pendingResponsesAre(t, scene.parley, 0)
  })

  test('4.2 a wait ends in time though it cannot be announced to other nodes', async (t) => {
    const scene = await begin(t)
    const id = await runningJob(scene)
    t.mock.method(scene.parley.store, 'announceWaits', () => new Promise(() => {}))
    const answer = scene.caller.read(id, '?wait=10')
    await pendingResponsesAre(t, scene.parley, 1)
    running(await afterTime(scene, 10_000, answer))
  })

  test('4.2 400 for a wait that is not a number of seconds from 0 to 120', async (t) => {
    const { caller } = await begin(t)
    const id = randomUUID()
    for (const wait of '120.001,121,-1,,x,1e1,0x10,+1, 1,NaN,1s,Infinity'.split(',')) {
      invalid(await caller.read(id, `?wait=${encodeURIComponent(wait)}`), /^wait: /)
    }
    invalid(await caller.read(id, '?wait=1&wait=2'), /^wait: /)
    refused(await caller.read(id, '?wait=120'), 404)
  })

  test('4.2 over sync.max_waiters or the share of the account: the current state at once, with Retry-After', async (t) => {
    const scene = await startScene(t, { settings: { sync: { max_waiters: 4 } }, account: 'crowd' })
    const { parley, caller: crowd, models } = scene
    const other = await callerOf(parley, 'user_max', 'other')
    const [mine, theirs] = [await runningJob(scene), await runningJob({ ...scene, caller: other })]
    // One of the four waiting slots is reserved, so only another account may use it.
    const waits = [1, 2, 3].map(() => crowd.read(mine, '?wait=60'))
    await pendingResponsesAre(t, parley, 3)
    assert.equal(running(await crowd.read(mine, '?wait=60')), '2')
    waits.push(other.read(theirs, '?wait=60'))
    await pendingResponsesAre(t, parley, 4)
    assert.equal(running(await other.read(theirs, '?wait=60')), '2')
    models.release()
    for (const answer of await Promise.all(waits)) assert.equal(granted(answer, 200).status, 'completed')
  })

  test('4.2 a stopping server ends a wait with the current state, Retry-After and a closed connection', async (t) => {
    const scene = await startScene(t)
    const waiting = scene.caller.read(await runningJob(scene), '?wait=60')
    await pendingResponsesAre(t, scene.parley, 1)
    const stopped = stopAtOnce(scene)
    const answer = await waiting
    assert.deepEqual([running(answer), answer.headers.get('connection')], ['2', 'close'])
    await stopped
  })

  test('4.2 the slot of a client that hangs up is free at once', async (t) => {
    const scene = await begin(t)
    const { parley, caller, clock } = scene
    const path = `${MESSAGES}/${await runningJob(scene)}?wait=60`
    const line = openLine(parley)
    line.send(`GET ${path} HTTP/1.1\r\nhost: parley\r\nx-api-key: ${caller.key}\r\n\r\n`)
    await pendingResponsesAre(t, parley, 1)
    line.hangUp()
    await pendingResponsesAre(t, parley, 0)
    assert.ok(!clock.pending().includes(60_000))
  })

  test('4.2 a wait for another account’s job is 404 at once, and takes no slot', async (t) => {
    const scene = await begin(t)
    const mine = await callerOf(scene.parley, 'user_max', 'mine')
    refused(await mine.read(await runningJob(scene), '?wait=60'), 404)
    await pendingResponsesAre(t, scene.parley, 0)
  })

  test('4.2 a wait for a job that is cancelled is answered with its end', async (t) => {
    const scene = await begin(t)
    const { parley, caller, clock } = scene
    const id = await runningJob(scene)
    const waiting = caller.read(id, '?wait=60')
    await pendingResponsesAre(t, parley, 1)
    assert.equal(await parley.store.cancelJob(id, clock.nowMs()), 'cancelled')
    clock.advance(500)
    assert.equal(failed(await waiting).code, 'cancelled')
  })

  test('4.1 4.3 a 202 says where the job is and when to read it', async (t) => {
    const { caller, models, clock } = await begin(t, () => reply.stall())
    const created = caller.create({ timeout: 30 })
    await models.received(1)
    clock.advance(30_000)
    const single = await created
    const location = `${MESSAGES}/${timedOut(single)}`
    const batch = await caller.batch([job()])
    assert.equal(batch.status, 202)
    for (const [answer, expected] of [
      [single, location],
      [batch, null],
    ] as const) {
      assert.deepEqual([answer.headers.get('location'), answer.headers.get('retry-after')], [expected, '1'])
    }
    granted(await caller.get(location), 200)
  })

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
    // Unknown jobs count as ended, so that a response does not reveal when jobs of others end.
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

  test('4.2 a wait counts as one read, and so does a read of several jobs', async (t) => {
    const scene = await startScene(t, { settings: { tiers: { user_max: { reads_per_minute: 2 } } } })
    const { parley, caller, clock } = scene
    const id = await runningJob(scene)
    const unknown = Array.from({ length: 99 }, () => randomUUID())
    for (const [send, remaining] of [
      [() => caller.read(id, '?wait=5'), '1'],
      [() => several(caller, [id, ...unknown], '&wait=5'), '0'],
    ] as const) {
      const waiting = send()
      await pendingResponsesAre(t, parley, 1)
      const answer = await afterTime(scene, 5000, waiting)
      assert.deepEqual([answer.status, answer.headers.get('ratelimit-remaining')], [200, remaining])
    }
    refused(await caller.read(id, '?wait=5'), 429)
    refused(await several(caller, [id]), 429)
    clock.advance(60_000)
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

  if (storeName() === 'Postgres') {
    test('4.2 waits on another node, for one job or several, end without a poll', async (t) => {
      const scene = await startScene(t)
      const { parley } = await startStage(t, { after: scene })
      const caller = scene.caller.at(parley)
      const ids = await openJobs(scene, 20)
      const waits = [1, 2].map(() => caller.read(ids[0], '?wait=60'))
      const all = several(caller, ids, '&wait=60')
      await pendingResponsesAre(t, parley, 22)
      scene.models.release()
      // The clock stands still, so Parley doesn't poll the database. Only a notification can have ended the reads.
      for (const answer of await Promise.all(waits)) assert.match(completed(answer), /^echo: /)
      const answer = await all
      assert.deepEqual([idsOf(answer.body.data), new Set(statuses(answer))], [ids, new Set(['completed'])])
    })
  }
})
