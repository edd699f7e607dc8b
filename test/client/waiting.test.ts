/** Tests how the client waits for jobs with the route that waits: it needs few reads, and failures do not stop it. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { completed, NotFoundError, TimeoutError } from '../../client/src/index.ts'
import { FakeClock } from '../fake-clock.ts'
import { pendingResponsesAre } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { asking, clientOf, type FaultyPlace, numbered, reasonOf, shareFaulty, startFaulty } from './client.ts'
import type { Fault, FaultyProxy } from './faulty-proxy.ts'

const NO_JOB = '01890a5d-ac96-774b-bcce-b302099a8057'

async function prepare(place: FaultyPlace, contents: readonly string[]) {
  const { models, client } = place
  models.script = ({ body }) => (/now/.test(JSON.stringify(body.messages)) ? undefined : reply.stall())
  const ids = await client.messages.createBatch(contents.map(asking))
  await models.received(contents.length)
  return { ...place, ids, id: ids[0] ?? '' }
}

const readsOf = ({ requests }: FaultyProxy) =>
  requests.filter(({ method, path }) => method === 'GET' && path.startsWith('/api/v1/messages'))

onAnyStore(() => {
  const start = shareFaulty()

  /** Reads that still wait for an earlier test's jobs would count as this test's, so they must end first. */
  async function startWaiting(t: TestContext, contents: readonly string[]) {
    const stage = await start(t)
    await pendingResponsesAre(t, stage.parley, 0)
    return prepare(stage, contents)
  }

  test('a wait is one request that the server answers when the job has ended', async (t) => {
    const { parley, models, client, proxy, clientClock, id } = await startWaiting(t, ['Hello'])
    const waiting = client.messages.wait(id)
    await pendingResponsesAre(t, parley, 1)
    models.release()
    assert.deepEqual(completed(await waiting).result, { response_content: 'echo: Hello' })
    // A client's first read returns at once, and shows whether the server can wait at all.
    assert.deepEqual(
      readsOf(proxy).map(({ path }) => path),
      [`/api/v1/messages?ids=${id}`, `/api/v1/messages?ids=${id}&wait=50&wait_for=all`],
    )
    assert.deepEqual(clientClock.pauses, [])
    assert.equal((await client.messages.wait(id.toUpperCase())).job_id, id)
  })

  test('a wait continues when its time at the server is over', async (t) => {
    const own = await startFaulty(t)
    const { parley, models, client, proxy, id } = await prepare(own, ['Hello'])
    const waiting = client.messages.wait(id)
    await pendingResponsesAre(t, parley, 1)
    own.clock.advance(50_000)
    await proxy.received(1 + 1 + 3)
    await pendingResponsesAre(t, parley, 1)
    models.release()
    assert.equal((await waiting).status, 'completed')
    assert.equal(readsOf(proxy).length, 3)
  })

  test('waitAll for 1,000 jobs makes fewer than 30 reads', async (t) => {
    const { client, proxy } = await start(t)
    const ids = await client.messages.createBatch(numbered(1000))
    const ended = await client.messages.waitAll(ids)
    assert.deepEqual(
      ended.map(({ job_id, result }) => [job_id, result?.response_content]),
      ids.map((id, n) => [id, `echo: number ${n}`]),
    )
    const reads = readsOf(proxy).length
    t.diagnostic(`${reads} reads`)
    assert.ok(reads < 30, `${reads} reads`)
  })

  test('waitEach yields a job as soon as it has ended, and leaving the loop ends the wait', async (t) => {
    const { parley, models, client, ids } = await startWaiting(t, ['later', 'now', 'later, too'])
    const seen: unknown[] = []
    for await (const job of client.messages.waitEach(ids)) {
      if (seen.length === 0) {
        assert.equal(job.job_id, ids[1])
        await Promise.all([client.messages.wait(job.job_id), models.received(3)])
        models.script = () => undefined
        models.release()
      }
      seen.push(job.result?.response_content)
    }
    assert.deepEqual(seen.toSorted(), ['echo: later', 'echo: later, too', 'echo: now'])
    models.script = () => reply.stall()
    const [open = ''] = await client.messages.createBatch([asking('open')])
    for await (const job of client.messages.waitEach([open, ids[0] ?? ''])) {
      assert.equal(job.job_id, ids[0])
      break
    }
    await pendingResponsesAre(t, parley, 0)
  })

  test('waitEach accepts IDs that become known one after the other', async (t) => {
    const { client } = await startWaiting(t, [])
    async function* ids() {
      for (const content of ['now 1', 'now 2', 'now 3'])
        yield* await client.messages.createBatch([asking(content)])
    }
    const seen: unknown[] = []
    for await (const { result } of client.messages.waitEach(ids())) seen.push(result?.response_content)
    assert.deepEqual(seen.toSorted(), ['echo: now 1', 'echo: now 2', 'echo: now 3'])
    const broken = (async function* () {
      yield* await client.messages.createBatch([asking('now 4')])
      throw new Error('no more ids')
    })()
    await assert.rejects(async () => {
      for await (const _ of client.messages.waitEach(broken));
    }, /no more ids/)
  })

  test('the wait survives 429, outages and broken connections, and waits as long as Retry-After says', async (t) => {
    const { parley, models, client, proxy, clientClock, ids, id } = await startWaiting(t, ['later', 'now'])
    await client.messages.wait(ids[1] ?? '')
    const limited: Fault = { status: 429, headers: { 'retry-after': '41' } }
    const away: Fault = { status: 503, headers: { 'retry-after': '17' } }
    const before = proxy.requests.length
    proxy.script('reset before', limited, away, { status: 502 }, 'cut the answer', 'reset after')
    const waiting = client.messages.wait(id, { maxRetries: 0 })
    await proxy.received(before + 5)
    await pendingResponsesAre(t, parley, 1)
    models.release()
    assert.deepEqual(completed(await waiting).result, { response_content: 'echo: later' })
    assert.deepEqual([clientClock.pauses[1], clientClock.pauses[2]], [41_000, 17_000])
    assert.equal(proxy.requests.length, before + 7)
  })

  test('a server with too many pending responses is read every few seconds instead', async (t) => {
    const full = await startFaulty(t, { settings: { sync: { max_waiters: 0 } } })
    const { models, client, proxy, clientClock, ids } = await prepare(full, ['Hello', 'too'])
    const waiting = client.messages.waitAll(ids)
    await proxy.received(2 + 8)
    models.release()
    assert.deepEqual(
      (await waiting).map(({ status }) => status),
      ['completed', 'completed'],
    )
    // Pauses of less than a second, which spread the reads over the minute, do not count here.
    const pauses = clientClock.pauses.filter((ms) => ms > 1000).map(Math.round)
    assert.deepEqual(pauses.slice(0, 5), [2000, 2000, 2000, 2000, 2531])
  })

  test('results that do not fit into one response are returned in several', async (t) => {
    const { models, client, proxy } = await start(t)
    models.script = () => reply.text('x'.repeat(3_000_000))
    const ids = await client.messages.createBatch(numbered(5))
    await Promise.all(ids.map((id) => client.messages.wait(id)))
    const before = readsOf(proxy).length
    const ended = await client.messages.waitAll(ids)
    assert.deepEqual(
      ended.map(({ job_id, result }) => [job_id, String(result?.response_content).length]),
      ids.map((id) => [id, 3_000_000]),
    )
    assert.equal(readsOf(proxy).length - before, 3)
  })

  test('a job that does not exist ends a wait at once, and is reported to onMissing', async (t) => {
    const { parley, client, ids, id } = await startWaiting(t, ['later', 'now'])
    for (const missing of [NO_JOB, 'no-such-job', 'a,b']) {
      await assert.rejects(client.messages.wait(missing), NotFoundError)
      await assert.rejects(client.messages.waitAll([id, missing]), NotFoundError)
    }
    const found: string[] = []
    const onMissing = (jobId: string) => void found.push(jobId)
    for await (const job of client.messages.waitEach(['x', NO_JOB, ids[1] ?? ''], { onMissing })) {
      found.push(job.job_id)
    }
    assert.deepEqual(found.toSorted(), ['x', NO_JOB, ids[1] ?? ''].toSorted())
    await assert.rejects(async () => {
      for await (const _ of client.messages.waitEach([NO_JOB]));
    }, NotFoundError)
    await pendingResponsesAre(t, parley, 0)
    assert.deepEqual(await client.messages.waitAll([]), [])
  })

  test('a wait ends after its timeout, with the job ID, and never asks the server to wait longer', async (t) => {
    const { parley, proxy, key, id } = await startWaiting(t, ['Hello'])
    const clock = new FakeClock()
    const client = clientOf(proxy, key, { clock })
    const waits = [
      () => client.messages.wait(id, { timeout: 10 }),
      () => client.messages.waitAll([id], { timeout: 10 }),
      () => client.messages.waitEach([id], { timeout: 10 }).next(),
    ]
    for (const [index, wait] of waits.entries()) {
      const waiting = wait()
      await pendingResponsesAre(t, parley, 1)
      clock.advance(10_000)
      const { jobId } = await reasonOf(waiting, TimeoutError)
      if (index === 0) assert.equal(jobId, id)
      await pendingResponsesAre(t, parley, 0)
    }
    assert.deepEqual(clock.pending(), [])
    const waited = readsOf(proxy).flatMap(({ path }) => /&wait=([\d.]+)/.exec(path)?.[1] ?? [])
    assert.deepEqual(waited, ['10', '10', '10'])
  })

  test("an abort ends a wait with the abort's reason", async (t) => {
    const { parley, client, ids } = await startWaiting(t, ['Hello', 'too'])
    const reason = new Error('enough')
    for (const wait of [
      (signal: AbortSignal) => client.messages.wait(ids[0] ?? '', { signal }),
      (signal: AbortSignal) => client.messages.waitAll(ids, { signal }),
      (signal: AbortSignal) => client.messages.waitEach(ids, { signal }).next(),
    ]) {
      const controller = new AbortController()
      const waiting = wait(controller.signal)
      await setImmediate()
      controller.abort(reason)
      await assert.rejects(waiting, reason)
      await pendingResponsesAre(t, parley, 0)
    }
  })

  test('a first request without an answer delays other waits, but neither their aborts nor their timeouts', async (t) => {
    const { client, proxy, ids } = await startWaiting(t, ['Hello', 'too'])
    const [one = '', two = ''] = ids
    const before = proxy.requests.length
    proxy.script('silence')
    const [first, second] = [new AbortController(), new AbortController()]
    const hanging = client.messages.wait(one, { signal: first.signal })
    await proxy.received(before + 1)
    const waiting = client.messages.wait(two, { signal: second.signal })
    await setImmediate()
    const reason = new Error('enough')
    second.abort(reason)
    await assert.rejects(waiting, reason)
    await assert.rejects(client.messages.wait(two, { timeout: 5 }), TimeoutError)
    assert.equal(proxy.requests.length, before + 1)
    first.abort(reason)
    await assert.rejects(hanging, reason)
  })

  test('createAndWait has one timeout for everything, and its key finds the job again', async (t) => {
    const { parley, key, models } = await start(t)
    models.script = () => reply.stall()
    const clock = new FakeClock()
    const client = clientOf(parley, key, { clock })
    const creating = client.messages.createAndWait(asking('Hello'), { timeout: 10 })
    await models.received(1)
    clock.advance(10_000)
    const { idempotencyKey } = await reasonOf(creating, TimeoutError)
    models.release()
    const again = await client.messages.createAndWait(asking('Hello'), { idempotencyKey })
    assert.equal(again.result.response_content, 'echo: Hello')
    assert.equal(models.requests.length, 1)
  })
})
