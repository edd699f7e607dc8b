/**
 * Tests that a node that was stopped for longer than its lease writes nothing for the jobs that it held. The answers to its
 * calls arrive while it is stopped, or are being stored when it stops. In the long form, several pairs of nodes do this at the
 * same time, on separate databases.
 */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { type ModelServerForTests, reply, startModelServer } from '../model-server.ts'
import { metric } from '../process/gauge.ts'
import { Random } from '../process/random.ts'
import type { Server } from '../process/server-process.ts'
import { eventually } from '../support/eventually.ts'
import { LONG, runsOf } from '../support/long-form.ts'
import { type Fleet, nodeName, startFleet } from './fleet.ts'

const PAIRS = runsOf(20)
const PAIRS_AT_ONCE = 4
const TRIALS = LONG ? 25 : 3
const JOBS = 8
const LAST = `job ${JOBS - 1}`
const LEASE_S = 1
/** In the third case below, the node is stopped within this many turns after the answers. Settling takes about that long. */
const MOST_TURNS = 60

const MOMENTS = [
  /** The jobs have finished on the other node when the stopped one continues. */
  'both before it goes on',
  /**
   * When the stopped node continues, the last job is still running on the other node, so its row still exists, with another
   * node and attempt.
   */
  'its own before, the others after it went on',
  'its own just before it stops',
] as const

/** Only the node `server` calls the model server `models`. */
interface Place {
  readonly name: string
  readonly server: Server
  readonly models: ModelServerForTests
  stalls: 'all' | 'last job' | 'none'
}

interface Pair {
  readonly fleet: Fleet
  readonly places: readonly [Place, Place]
  readonly lastCall: Map<string, { readonly place: string; readonly answer: string }>
  readonly random: Random
}

interface Outcome {
  readonly id: string
  readonly node: string
  readonly attempt: number
  readonly content: string
}

describe('a node that was stopped past its lease writes nothing', { concurrency: PAIRS_AT_ONCE }, () => {
  for (const run of PAIRS) {
    test(`${TRIALS} times, whenever its answers arrive${run}`, async (t) => {
      const pair = await startPair(t)
      const ended: Outcome[] = []
      let moved = 0
      for (let trial = 0; trial < TRIALS; trial++) {
        const outcomes = await stopAndGoOn(t, pair, trial)
        moved += outcomes.filter(({ attempt }) => attempt > 1).length
        ended.push(...outcomes)
      }
      const ids = ended.map(({ id }) => id)
      assert.deepEqual(await outcomesOf(pair.fleet, ids), sorted(ended), 'an outcome has changed')
      assert.ok(moved > 0, 'no job was claimed again')
      for (const { server } of pair.places) {
        await server.program.logged(/the lease of this node expired/)
        assert.ok((await metric(server.url, 'parley_leases_lost_total')) > 0)
        assert.ok((await metric(server.url, 'parley_jobs_reclaimed_total')) >= JOBS)
      }
      await pair.fleet.assertAllSettledOnce()
      t.diagnostic(`${TRIALS} stops, ${ended.length} jobs, ${moved} of them claimed again, 0 stale writes`)
    })
  }
})

async function startPair(t: TestContext): Promise<Pair> {
  const random = Random.of(t)
  const lastCall: Pair['lastCall'] = new Map()
  const upstreams = await Promise.all([0, 1].map(() => startModelServer({ keep: false })))
  t.after(() => Promise.all(upstreams.map((models) => models.close())))
  const [first, second] = upstreams
  assert.ok(first && second)
  const jobs = { lease_seconds: LEASE_S }
  const fleet = await startFleet(t, { nodes: 0, upstream: first.baseUrl, jobs })
  let calls = 0
  const start = async (models: ModelServerForTests): Promise<Place> => {
    const server = await fleet.add({
      env: { OPENAI_BASE_URL: models.baseUrl, OPENAI_MAX_CONCURRENCY: '256' },
    })
    const name = await nodeName(server)
    const place: Place = { name, server, models, stalls: 'all' }
    models.script = ({ body }) => {
      const answer = `call ${calls++}`
      const content = String(body.messages[0]?.content)
      lastCall.set(content, { place: name, answer })
      const isStalled = place.stalls === 'all' || (place.stalls === 'last job' && content.endsWith(LAST))
      return isStalled ? reply.stall(reply.text(answer)) : reply.text(answer)
    }
    return place
  }
  return { fleet, places: [await start(first), await start(second)], lastCall, random }
}

async function stopAndGoOn(t: TestContext, pair: Pair, trial: number): Promise<Outcome[]> {
  const { fleet, places, random } = pair
  const [held, other] = trial % 2 === 0 ? places : ([places[1], places[0]] as const)
  const moment = MOMENTS[trial % MOMENTS.length]
  held.stalls = 'all'
  // At first, the other node runs the jobs one at a time, because each of them may have caused the crash.
  other.stalls = 'last job'
  const contents = Array.from({ length: JOBS }, (_, index) => `trial ${trial}, job ${index}`)
  const { status, text, body } = await fleet.caller(held.server).batch(contents)
  assert.equal(status, 202, text)
  const ids = body.data?.job_ids ?? []
  await fleet.until(t.signal, 'select count(*) = $1 from open_jobs where node = $2', [JOBS, held.name])
  await eventually(() => contents.every((content) => pair.lastCall.has(content)), Boolean, {
    signal: t.signal,
  })

  if (moment === 'its own just before it stops') {
    held.models.release()
    for (let turns = random.below(MOST_TURNS); turns > 0; turns--) {
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  }
  held.server.kill('SIGSTOP')
  const claimed = async () => {
    const ended = new Set((await outcomesOf(fleet, ids)).map(({ id }) => id))
    const isHeld = (content: string) => content.endsWith(LAST) && calledBy(pair, content) === other.name
    return contents.every((content, index) => ended.has(ids[index] ?? '') || isHeld(content))
  }
  await eventually(claimed, Boolean, { signal: t.signal })
  // The answers arrive at connections of a stopped process.
  held.models.release()
  if (moment === 'both before it goes on') {
    other.models.release()
    await allEnded(t, fleet, ids)
  }
  const before = await outcomesOf(fleet, ids)
  held.server.kill('SIGCONT')
  // Once the node runs nothing, it has stored every answer that it received.
  const running = () => metric(held.server.url, 'parley_jobs_running')
  await eventually(running, (jobs) => jobs === 0, { signal: t.signal })
  assert.deepEqual(await outcomesOf(fleet, ids), before, `a stale write: ${moment}`)
  other.models.release()
  await allEnded(t, fleet, ids)
  const outcomes = await outcomesOf(fleet, ids)
  for (const { id, node, content } of outcomes) {
    const call = pair.lastCall.get(contents[ids.indexOf(id)] ?? '')
    assert.deepEqual({ place: node, answer: JSON.parse(content) }, call, `the job ${id} has a stale answer`)
  }
  return outcomes
}

function calledBy({ lastCall }: Pair, content: string): string | undefined {
  return lastCall.get(content)?.place
}

async function allEnded({ signal }: TestContext, fleet: Fleet, ids: readonly string[]): Promise<void> {
  await fleet.until(signal, 'select count(*) = $1 from outcomes where id = any($2::uuid[])', [
    ids.length,
    ids,
  ])
}

async function outcomesOf(fleet: Fleet, ids: readonly string[]): Promise<Outcome[]> {
  const rows = await fleet.rows(
    'select id, node, attempt, content from outcomes where id = any($1::uuid[]) order by id',
    [ids],
  )
  return rows.map(({ id, node, attempt, content }) => ({
    id: String(id),
    node: String(node),
    attempt: Number(attempt),
    content: String(content),
  }))
}

function sorted(outcomes: readonly Outcome[]): Outcome[] {
  return outcomes.toSorted(({ id: one }, { id: other }) => (one < other ? -1 : 1))
}
