/**
 * Tests that a faulty model server only affects its own jobs. Those jobs end by their deadlines, the memory of the server stays
 * limited, and jobs of another model server complete meanwhile. The long form sends many jobs into each fault, one fault after
 * the other. The short form sends a few jobs into all faults at the same time.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type ChatRequest, type Reply, reply, startModelServer } from '../model-server.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { peakOf } from '../support/memory-of.ts'
import { type Caller, isFinal } from './caller.ts'
import { metric } from './gauge.ts'
import { installation, type Server } from './server-process.ts'

const HEALTHY = 'answers after a while'
const HEALTHY_MS = 500
const HUGE = 'answers with 100 MB'
const HUGE_BYTES = 100 * 1024 * 1024
const DRIP_MS = 50

const FAULTS: Readonly<Record<string, Reply>> = {
  'never answers': () => {},
  'resets the connection': reply.reset(),
  'resets the connection in the middle of the body': reply.resetMidBody(),
  'answers 429 with Retry-After': reply.status(429, { headers: { 'retry-after': '1' } }),
  'answers 503': reply.status(503),
  'answers with garbage': reply.garbage(),
  'drips its answer': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const timer = setInterval(() => response.write(' '), DRIP_MS)
    response.once('close', () => clearInterval(timer))
  },
  // This fault comes last, because the process keeps the memory that it takes.
  [HUGE]: reply.huge(HUGE_BYTES),
}

const NAMES = Object.keys(FAULTS)
const ROUNDS = LONG ? NAMES.map((name) => [name]) : [NAMES]
const JOBS = LONG ? 1000 : 40
const BATCH = 20
const CALL_TIMEOUT_S = 2
const RUN_TIMEOUT_S = 4
/** On a busy machine, settling jobs after their deadline may take this long. */
const SLACK_S = 6
/** One account can use this many of the 256 slots. The others are reserved for other accounts. */
const SLOTS = 240
/**
 * An answer of 100 MB may take this long, because Parley reads 16 MiB of it. Few calls run at the same time: earlier faults
 * have lowered the limit, and a server without useful answers does not raise it.
 */
const HUGE_S = 0.5
/**
 * The memory may exceed the peak with as many jobs on a healthy model server by this much, because V8 enlarges its young
 * generation under any load.
 */
const MAX_MIB = 100
const HEALTHY_JOBS = Math.max(600, JOBS)
const ADMIN_TOKEN = 'an-admin-token-for-this-test'

test(`${JOBS} jobs at a model server that ${NAMES.join(', or ')}: all end in time, and others notice nothing`, async (t) => {
  const { server, caller, other } = await start(t)
  const { pid } = server.program
  const healthy = peakOf(pid)
  t.after(healthy.end)
  let warm = false
  const othersMeanwhile = askOn(other, () => warm)
  await sendAll(caller, [HEALTHY], HEALTHY_JOBS)
  await noneLeft(t, server)
  warm = true
  await othersMeanwhile
  healthy.end()
  const healthyMiB = healthy.peakMiB()
  for (const faults of ROUNDS) {
    const memory = peakOf(pid)
    t.after(memory.end)
    const startMs = performance.now()
    const ids = await sendAll(caller, faults, JOBS)
    let over = false
    const others = askOn(other, () => over)
    await noneLeft(t, server)
    const tookS = (performance.now() - startMs) / 1000
    over = true
    const slowestMs = await others
    memory.end()
    const { failed, longestS } = await runsOfAll(server, caller, ids)
    const moreMiB = memory.peakMiB() - healthyMiB
    t.diagnostic(
      `${LONG ? faults.join(', ') : 'all faults'}: ${ids.length} jobs, ${failed} failed, in ${tookS.toFixed(1)} s, ` +
        `the longest run ${longestS.toFixed(1)} s; ${moreMiB.toFixed(0)} MiB more; others ${Math.round(slowestMs)} ms at most`,
    )
    assert.ok(longestS <= RUN_TIMEOUT_S + SLACK_S, `a run took ${longestS} s`)
    const waves = Math.ceil(JOBS / SLOTS)
    const hugeS = LONG && faults.includes(HUGE) ? JOBS * HUGE_S : 0
    assert.ok(tookS <= waves * RUN_TIMEOUT_S + SLACK_S + hugeS, `the last job ended after ${tookS} s`)
    assert.ok(moreMiB <= MAX_MIB, `${moreMiB} MiB more while the model server ${faults.join(', ')}`)
  }
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
})

const answerLater: Reply = (request, response, server) => {
  setTimeout(() => reply.echo()(request, response, server), HEALTHY_MS)
}

/** Jobs with the model `gpt-5-mini` run on the faulty model server, all others on the good one. */
async function start(t: TestContext) {
  const good = await startModelServer({ keep: false })
  const bad = await startModelServer({
    keep: false,
    script: ({ body }) => (faultOf(body) === HEALTHY ? answerLater : FAULTS[faultOf(body)]),
  })
  t.after(() => Promise.all([good.close(), bad.close()]))
  const place = await installation(t, {
    upstream: good.baseUrl,
    settings: {
      upstreams: {
        bad: { base_url: bad.baseUrl, api_key_env: null, call_timeout_seconds: CALL_TIMEOUT_S },
      },
      models: { 'gpt-5-mini': { targets: [{ upstream: 'bad', model: 'bad' }] } },
      jobs: { run_timeout_seconds: RUN_TIMEOUT_S, patience_seconds: 0 },
    },
  })
  const server = await place.start({ env: { PARLEY_ADMIN_TOKEN: ADMIN_TOKEN, LOG_LEVEL: 'error' } })
  const caller = server.caller(await server.firstKey())
  return { server, caller, other: server.caller(await place.key('other', 'user_go')) }
}

function faultOf({ messages }: Partial<ChatRequest>): string {
  return String(messages?.[0]?.content).split(':')[0] ?? ''
}

async function sendAll(caller: Caller, faults: readonly string[], jobs: number): Promise<string[]> {
  const ids: string[] = []
  for (let sent = 0; sent < jobs; sent += BATCH) {
    const contents = Array.from({ length: BATCH }, (_, index) => {
      const job = sent + index
      return `${faults[job % faults.length]}: job ${job}`
    })
    const { status, text, body } = await caller.batch(contents)
    assert.equal(status, 202, text)
    ids.push(...(body.data?.job_ids ?? []))
  }
  return ids
}

/**
 * Sends single creates for the good server until the load ends. Each must complete. Returns how many milliseconds the slowest
 * took.
 */
async function askOn(other: Caller, isOver: () => boolean): Promise<number> {
  let slowestMs = 0
  for (let asked = 0; !isOver(); asked++) {
    const startMs = performance.now()
    const answer = await other.single(`request ${asked}`, { model: 'gpt-5' })
    slowestMs = Math.max(slowestMs, performance.now() - startMs)
    assert.equal(answer.status, 200, answer.text)
    assert.ok(isFinal(answer) && answer.body.data?.status === 'completed', answer.text)
  }
  return slowestMs
}

/** Resolves when no job is queued or running, except the one that `askOn` may have in progress. */
async function noneLeft({ signal }: TestContext, { url }: Server): Promise<void> {
  const left = async () =>
    (await metric(url, 'parley_queue_jobs')) + (await metric(url, 'parley_jobs_assigned'))
  await eventually(left, (jobs) => jobs <= 1, { signal })
}

async function runsOfAll(server: Server, caller: Caller, ids: readonly string[]) {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
  let failed = 0
  let longestS = 0
  for (const id of ids) {
    // The metrics do not count the latest changes yet, so one job may still be open.
    await caller.ended(id)
    const response = await fetch(`${server.url}/admin/api/jobs/${id}`, { headers })
    const { data } = (await response.json()) as {
      data: { status: string; claimed_at: number; settled_at: number }
    }
    if (data.status === 'failed') failed += 1
    longestS = Math.max(longestS, data.settled_at - data.claimed_at)
  }
  return { failed, longestS }
}
