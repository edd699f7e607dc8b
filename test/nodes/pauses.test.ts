/**
 * Tests that a node that was paused, or whose event loop was blocked, does not count as crashed, so that no job fails because
 * of that.
 */
import assert from 'node:assert/strict'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { type ModelServerForTests, reply, startModelServer } from '../model-server.ts'
import { temporaryFolder } from '../parley.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import type { ProgramOptions, Server } from '../process/server-process.ts'
import { startCuttingProxy } from './cutting-proxy.ts'
import { type Fleet, nodeName, startFleet } from './fleet.ts'

/** There are more pauses than `max_attempts`. If pauses counted as crashes, the jobs would fail. */
const PAUSES = process.env.PARLEY_LONG ? 50 : 4
const BLOCKS = process.env.PARLEY_LONG ? 50 : 1
const OFTEN = BLOCKS === 1 ? 'once' : `${BLOCKS} times`
const JOBS = 8
/** This is the shortest possible lease, so three leases pass quickly. */
const LEASE_S = 1
/** Tests use this lease if no lease may expire, even on a busy machine. */
const SAFE_LEASE_S = 2
/** The promise allows this many seconds in addition to `jobs.hang_seconds`. */
const MOVED_WITHIN_S = 45
const HANG_S = process.env.PARLEY_LONG ? 60 : 5

/** The first node runs a batch. The model server does not answer before `finish`. */
async function start(
  t: TestContext,
  {
    first = {},
    databaseUrl,
    ...jobs
  }: {
    first?: ProgramOptions
    databaseUrl?: string
    max_attempts?: number
    hang_seconds?: number
    lease_seconds?: number
  } = {},
) {
  const models = await startModelServer({}, t)
  models.script = () => reply.stall()
  const fleet = await startFleet(t, {
    nodes: 0,
    upstream: models.baseUrl,
    jobs: { lease_seconds: LEASE_S, max_attempts: 3, ...jobs },
    ...(databaseUrl !== undefined && { databaseUrl }),
  })
  const holder = await fleet.add(first)
  const ids = await hold(fleet, holder, models)
  const other = await fleet.add()
  return { models, fleet, holder, other, ids }
}

async function hold(
  fleet: Fleet,
  node: Server,
  models: ModelServerForTests,
  jobs = JOBS,
): Promise<readonly string[]> {
  const called = models.requests.length
  const contents = Array.from({ length: jobs }, (_, index) => `job ${called + index}`)
  const { body } = await fleet.caller(node).batch(contents)
  await models.received(called + jobs)
  return body.data?.job_ids ?? []
}

async function finish(t: TestContext, fleet: Fleet, models: ModelServerForTests): Promise<void> {
  models.script = () => undefined
  models.release()
  await fleet.allSettled(t.signal)
  assert.deepEqual(await fleet.rows(`select id, error from outcomes where status <> 'completed'`), [])
}

async function threeLeases(t: TestContext, fleet: Fleet, since: unknown, leaseS = LEASE_S): Promise<void> {
  const over = `select clock_timestamp() > $1::timestamptz + interval '${3 * leaseS} s'`
  await fleet.until(t.signal, over, [since])
}

async function databaseTime(fleet: Fleet): Promise<unknown> {
  const [row] = await fleet.rows('select clock_timestamp()::text as now')
  return row?.now
}

test(`jobs whose node is stopped for three leases, ${PAUSES} times: none fails, no crash count remains`, async (t) => {
  const databaseUrl = await freshRealDatabase(t)
  const proxy = await startCuttingProxy(databaseUrl)
  t.after(() => proxy.close())
  const first = { env: { DATABASE_URL: proxy.url } }
  const { models, fleet, holder, other, ids } = await start(t, { first, databaseUrl })
  await t.test(
    'a node that is cut off from the database past its lease: no crash count remains',
    async (t) => {
      proxy.shut()
      const rescued = 'select count(*) > 0 from open_jobs where deaths = 1 and node = $1'
      await fleet.until(t.signal, rescued, [await nodeName(other)])
      proxy.open()
      await fleet.until(t.signal, 'select not exists (select 1 from open_jobs where deaths > 0)')
      await holder.program.logged(/lease of this node expired/)
    },
  )

  let [held, free] = [other, holder]
  for (let pause = 0; pause < PAUSES; pause++) {
    const since = await databaseTime(fleet)
    held.kill('SIGSTOP')
    await threeLeases(t, fleet, since)
    // The other node has rescued all jobs. Each of them may have caused the crash, so that node calls the model only for the
    // first.
    const taken = 'select count(*) > 0 from open_jobs where node = $1'
    await fleet.until(t.signal, taken, [await nodeName(free)])
    held.kill('SIGCONT')
    await fleet.until(t.signal, 'select not exists (select 1 from open_jobs where deaths > 0)')
    ;[held, free] = [free, held]
  }
  await finish(t, fleet, models)
  const [{ attempts, crashes } = {}] = await fleet.rows(
    'select sum(attempt)::int as attempts, sum(deaths)::int as crashes from outcomes where id = any($1::uuid[])',
    [ids],
  )
  assert.ok(Number(attempts) >= JOBS + 1 + PAUSES, 'each pause cost a claim')
  assert.equal(crashes, 0)
  t.diagnostic(`${JOBS} jobs, ${PAUSES} pauses of three leases, ${attempts} claims`)
})

test('a job that may crash once does not fail while its node is paused, and fails when the node is gone', async (t) => {
  const { models, fleet, holder, other } = await start(t, { max_attempts: 1 })
  const since = await databaseTime(fleet)
  holder.kill('SIGSTOP')
  await threeLeases(t, fleet, since)
  await fleet.until(t.signal, `select count(*) = ${JOBS} from crashes`)
  holder.kill('SIGCONT')
  await finish(t, fleet, models)
  models.script = () => reply.stall()
  // If only one job was running, it must have caused the crash.
  const ids = await hold(fleet, holder, models, 1)
  await holder.crash()
  await fleet.until(t.signal, 'select count(*) = 1 from crashes')
  const [{ counted } = {}] = await fleet.rows('select min(counted_at)::text as counted from crashes')
  await fleet.until(t.signal, 'select count(*) > 0 from outcomes where id = any($1::uuid[])', [ids])
  const [{ waited } = {}] = await fleet.rows(
    'select extract(epoch from clock_timestamp() - $1::timestamptz)::float as waited',
    [counted],
  )
  assert.ok(Number(waited) >= 10 * LEASE_S, `the jobs failed after ${waited} s`)
  for (const id of ids) {
    const { body } = await fleet.caller(other).ended(id)
    assert.match(body.data?.error?.message ?? '', /crashed once/)
  }
})

test(`a node whose event loop is blocked for three leases, ${OFTEN}, keeps its jobs`, async (t) => {
  const block = await blocker(t)
  const { models, fleet, holder, ids } = await start(t, { first: block.options, lease_seconds: SAFE_LEASE_S })
  for (let trial = 0; trial < BLOCKS; trial++) {
    const since = await databaseTime(fleet)
    await block.begin(holder)
    await threeLeases(t, fleet, since, SAFE_LEASE_S)
    await block.end(holder)
  }
  await finish(t, fleet, models)
  const [{ claims } = {}] = await fleet.rows(
    'select count(*)::int as claims from outcomes where attempt = 1 and node = $1 and id = any($2::uuid[])',
    [await nodeName(holder), ids],
  )
  assert.equal(claims, JOBS, 'every job ended with the claim that it began with')
  assert.doesNotMatch(holder.program.stderr, /lease of this node expired/)
  t.diagnostic(`${JOBS} jobs, event loop blocked ${OFTEN} for three leases, every job claimed once`)
})

test('a node whose event loop is blocked permanently ends itself, and its jobs run on another', async (t) => {
  const block = await blocker(t)
  const { models, fleet, holder, other } = await start(t, { first: block.options, hang_seconds: HANG_S })
  await block.begin(holder)
  const blockedMs = performance.now()
  assert.deepEqual(await holder.program.exited, { code: null, signal: 'SIGKILL' })
  const [line = ''] = holder.program.stderr.split('\n').filter((text) => text.includes('jobs.hang_seconds'))
  assert.match(
    line,
    /^{"level":50,"time":"[^"]+","node":"\w+","msg":"the event loop has not reported for .*"}$/,
  )
  // Each of the jobs may have caused the crash, so only one of them runs.
  await fleet.until(t.signal, 'select count(*) > 0 from open_jobs where node = $1', [await nodeName(other)])
  const seconds = (performance.now() - blockedMs) / 1000
  assert.ok(seconds < HANG_S + MOVED_WITHIN_S, `it took ${seconds} s`)
  await finish(t, fleet, models)
  t.diagnostic(`hang_seconds ${HANG_S}: the jobs ran on another node after ${seconds.toFixed(1)} s`)
})

async function blocker(t: TestContext) {
  const file = join(await temporaryFolder(t), 'blocked')
  const module = new URL('./block-loop.ts', import.meta.url).href
  let blocks = 0
  return {
    options: { env: { NODE_OPTIONS: `--import=${module}`, BLOCK_WHILE: file } },
    begin: async (node: Server) => {
      await writeFile(file, '')
      blocks += 1
      node.kill('SIGUSR2')
      await node.program.logged(new RegExp(`event loop blocked \\(${blocks}\\)`))
    },
    end: async (node: Server) => {
      await rm(file)
      await node.program.logged(new RegExp(`event loop free \\(${blocks}\\)`))
    },
  }
}
