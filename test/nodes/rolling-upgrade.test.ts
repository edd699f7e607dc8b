/**
 * Tests that this version takes over from another version that is running. On Postgres, nodes are replaced one at a time. On
 * SQLite, this version opens the file of a killed server. TEST_OTHER_CLONE is the path of a clone of the other version, with
 * its packages installed:
 *
 *     TEST_OTHER_CLONE=/a/clone/of/0.3.0 npm run test:unit -- test/nodes/rolling-upgrade.test.ts
 */
import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import test, { type TestContext } from 'node:test'
import { type Received, reply, type Script, startModelServer } from '../model-server.ts'
import { type Caller, idsOf, jobOf, type Reply } from '../process/caller.ts'
import { jobsByContent } from '../process/rows.ts'
import { installation } from '../process/server-process.ts'
import { type Receiver, startReceiver } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { startFleet } from './fleet.ts'
import { unhurried } from './load.ts'

const CLONE = process.env.TEST_OTHER_CLONE
const skip = CLONE ? false : 'TEST_OTHER_CLONE names no clone of another version'
const main = resolve(CLONE ?? '', 'src/main.ts')
const CALLERS = 6
const BATCH = 10
const REQUESTS = LONG ? 1000 : 60
/** A node sends this many callbacks to one receiver at the same time. If the node is killed, their outcomes may be lost. */
const IN_PROGRESS = 32
/** `BACKLOG` counts the jobs that the killed server had accepted, `CALLED` those that it had sent to the model server. */
const BACKLOG = LONG ? 5000 : 300
const CALLED = BACKLOG / 3

const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: Array(50).fill(0.5) } }

const isRejected = (content: string) => /5 job [01]$/.test(content)
const contentOf = ({ body }: Received) => String(body.messages.at(-1)?.content)
const script: Script = (request, index) =>
  isRejected(contentOf(request)) ? reply.status(400) : unhurried(request, index)

type Send = (path: string, body: unknown, headers: Record<string, string>) => Promise<Reply | null>

/** All jobs have idempotency keys. Jobs in batches also have callbacks. */
class Jobs {
  readonly #receiver: Receiver
  readonly #callbacks = new Set<string>()
  readonly #contents = new Map<string, string>()
  #requests = 0

  constructor(receiver: Receiver) {
    this.#receiver = receiver
  }

  get count(): number {
    return this.#contents.size
  }

  get requests(): number {
    return this.#requests
  }

  /** Repeats the same request until there is a response. The key prevents the jobs from being created twice. */
  async create(name: string, count: number, send: Send): Promise<void> {
    const callback = { callback_url: `${this.#receiver.url}/hook` }
    const contents = Array.from({ length: count }, (_, index) => `${name} job ${index}`)
    const [path, body] =
      count === 1
        ? ['', jobOf(contents[0] ?? '')]
        : ['/batches', contents.map((content) => ({ ...jobOf(content), callback }))]
    for (;;) {
      const response = await send(`/api/v1/messages${path}`, body, { 'idempotency-key': name })
      if (response === null) continue
      assert.ok(response.status === 200 || response.status === 202, response.text)
      const ids = idsOf(response)
      assert.equal(ids.length, count)
      for (const [index, id] of ids.entries()) {
        this.#contents.set(id, contents[index] ?? '')
        if (count > 1) this.#callbacks.add(id)
      }
      this.#requests += 1
      return
    }
  }

  /**
   * Asserts that each job has finished with its answer, or with the reason why it failed. Returns the results of reads, by job
   * ID.
   */
  async assertEnded(caller: Caller): Promise<ReadonlyMap<string, unknown>> {
    const read = new Map<string, unknown>()
    const left = this.#contents.entries()
    const readOn = async () => {
      for (const [id, content] of left) {
        const { data, ...others } = (await caller.ended(id)).body
        if (isRejected(content)) assert.equal(data?.error?.code, 'model_error', JSON.stringify(others))
        else assert.equal(data?.result?.response_content, `echo: ${content}`)
        read.set(id, data)
      }
    }
    await Promise.all(Array.from({ length: 8 }, readOn))
    return read
  }

  /**
   * Asserts that each callback arrived with what a read returns. A callback may arrive twice only if it was in progress when
   * its node was killed.
   * @param killsMs when nodes were killed
   */
  async assertCalledBack(t: TestContext, read: ReadonlyMap<string, unknown>, killsMs: readonly number[]) {
    const byJob = () => Map.groupBy(this.#receiver.requests, ({ headers }) => String(headers['webhook-id']))
    const requests = await eventually(byJob, (jobs) => this.#callbacks.isSubsetOf(jobs), { signal: t.signal })
    let again = 0
    for (const id of this.#callbacks) {
      const [first, second, ...others] = requests.get(id) ?? []
      assert.ok(first)
      const { callback_payload: _, ...said } = JSON.parse(first.body)
      assert.deepEqual(said, read.get(id))
      if (!second) continue
      again += 1
      assert.deepEqual([second.body, ...others], [first.body])
      const between = killsMs.filter((killMs) => first.atMs <= killMs && killMs <= second.atMs)
      assert.ok(between.length > 0, `${id} came twice, and there was no kill in between`)
    }
    assert.ok(again <= killsMs.length * IN_PROGRESS, `${again} callbacks came twice`)
    t.diagnostic(
      `${read.size} jobs, ${this.#callbacks.size} callbacks, ${again} of them twice after ${killsMs.length} kills`,
    )
  }
}

test('nodes of another version are replaced one by one under load, with a kill of one of each', {
  skip,
}, async (t) => {
  const models = await startModelServer({ script, keep: false }, t)
  const receiver = await startReceiver({}, t)
  const fleet = await startFleet(t, { nodes: 2, upstream: models.baseUrl, settings, program: { main } })
  const [killed, replaced] = fleet.nodes
  assert.ok(killed && replaced)

  const jobs = new Jobs(receiver)
  let over = false
  const send: Send = (path, body, headers) => fleet.ask((caller) => caller.send(path, body, headers))
  const asking = Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      for (let asked = 0; !over; asked++) {
        await jobs.create(`caller-${caller}-request-${asked}`, asked % 3 === 0 ? BATCH : 1, send)
      }
    }),
  )
  const more = async () => {
    const enough = jobs.requests + REQUESTS
    const accepted = eventually(
      () => jobs.requests,
      (requests) => requests >= enough,
      { signal: t.signal },
    )
    await Promise.race([accepted, asking])
  }
  const killsMs: number[] = []
  const crash = async (node: typeof killed) => {
    killsMs.push(Date.now())
    await node.crash()
    fleet.remove(node)
  }

  try {
    await more()
    const first = await fleet.add()
    await more()
    await crash(killed)
    await more()
    await fleet.add()
    await more()
    await crash(first)
    await fleet.add()
    await more()
    fleet.remove(replaced)
    assert.deepEqual(await replaced.stop(), { code: 0, signal: null })
    await more()
  } finally {
    over = true
  }
  await asking
  const read = await jobs.assertEnded(fleet.caller(fleet.nodes[0]))
  await jobs.assertCalledBack(t, read, killsMs)
  assert.equal(await fleet.assertAllSettledOnce(), jobs.count)
  // Postgres may count the deadlocks of a session only when the session ends.
  await Promise.all(fleet.nodes.map((node) => node.stop()))
  const sessions = 'select count(*) = 1 from pg_stat_activity where datname = current_database()'
  await fleet.until(t.signal, sessions)
  const database = 'select deadlocks::int from pg_stat_database where datname = current_database()'
  assert.deepEqual(await fleet.rows(database), [{ deadlocks: 0 }])
})

test('a SQLite file of another version, whose server was killed at work, is opened by this one', {
  skip,
}, async (t) => {
  const models = await startModelServer({ script, keep: false }, t)
  const receiver = await startReceiver({}, t)
  const place = await installation(t, { upstream: models.baseUrl, settings })
  const old = await place.start({ main })
  const key = await old.firstKey()
  const jobs = new Jobs(receiver)
  const oldCaller = old.caller(key)
  const send: Send = (path, body, headers) => oldCaller.send(path, body, headers)
  const names = Array.from({ length: BACKLOG / BATCH }, (_, index) => `request-${index}`)
  for (const name of names) await jobs.create(name, BATCH, send)
  await models.received(CALLED)
  const killMs = Date.now()
  await old.crash()

  const server = await place.start()
  const caller = server.caller(key)
  const again = new Jobs(receiver)
  for (const name of names) {
    await again.create(name, BATCH, (path, body, headers) => caller.send(path, body, headers))
  }
  const read = await jobs.assertEnded(caller)
  assert.equal((await again.assertEnded(caller)).size, BACKLOG)
  await jobs.assertCalledBack(t, read, [killMs])
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  const stored = jobsByContent(place.database)
  assert.equal(stored.size, BACKLOG)
  assert.ok([...stored.values()].every((count) => count === 1))
})
