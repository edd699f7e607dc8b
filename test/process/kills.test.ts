/**
 * Tests a server that is killed at random moments under load, on one database. The callers keep the ledger of accepted jobs
 * outside the server. Usage must match what the model server counted, to the last token, because the sums are stored together
 * with the answers. The long form repeats this on new databases.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type Received, reply, startModelServer } from '../model-server.ts'
import { LONG, runsOf } from '../support/long-form.ts'
import type { Caller } from './caller.ts'
import { allEnded, CrashRun } from './crash-run.ts'
import { Ledger } from './ledger.ts'
import { Random } from './random.ts'
import { jobsByContent, jobsByStatus, outcomes, usageSums } from './rows.ts'
import { installation } from './server-process.ts'

const RUNS = runsOf(20)
const KILLS = LONG ? 50 : 5
/** With fewer jobs per kill, there is too little load to prove anything. */
const JOBS_FOR_A_KILL = LONG ? 50 : 20
/** The long form allows more events, so that each run reaches its number of jobs. */
const MOST_EVENTS = LONG ? 320 : 240
const RUNS_OF_BATCHES = runsOf(3)
const KILLS_OF_BATCHES = LONG ? 40 : 5
/** On average, at least this many batches per kill must lose their response. Twelve callers have one in progress each. */
const CUT_OFF_FOR_A_KILL = LONG ? 9 : 1
const BATCH = 30
const MODELS = ['gpt-5', 'gpt-5-mini']

for (const run of RUNS) {
  test(`after ${KILLS} kills under load every accepted job has ended, once and for ever${run}`, killUnderLoad)
}

for (const run of RUNS_OF_BATCHES) {
  test(
    `after ${KILLS_OF_BATCHES} kills during inserts of ${BATCH} no batch is there in part${run}`,
    killDuringInserts,
  )
}

async function killUnderLoad(t: TestContext): Promise<void> {
  const random = Random.of(t)
  const models = await startModelServer({ keep: false }, t)
  const calls = new Map<string, number>()
  const settings = { jobs: { concurrency: 24, max_attempts: 1000 } }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  const ledger = new Ledger((content) => `echo: ${content}`)
  const createBatch = async (caller: Caller, name: string) => {
    const contents = Array.from({ length: 1 + random.below(BATCH) }, (_, index) => `${name}, job ${index}`)
    const model = MODELS[random.below(2)]
    ledger.accepted(contents, await caller.batch(contents, () => ({ model })))
  }
  const run = new CrashRun({
    place,
    random,
    kills: KILLS,
    callers: 8,
    mostEvents: MOST_EVENTS,
    ask: async (caller, name) => {
      const choice = random.below(10)
      const model = MODELS[random.below(2)]
      if (choice < 5) ledger.accepted([name], await caller.single(name, { model }))
      else if (choice < 7) await createBatch(caller, name)
      else await ledger.readAny(caller, random)
    },
    onCalm: () => {
      models.script = (request) => void count(calls, request)
      models.release()
    },
  })
  models.script = (request, index) => {
    count(calls, request)
    run.event()
    // The model server holds some calls until others arrive, so that a kill finds jobs at every stage, but never so many that
    // all wait.
    if (models.running() > 5) models.release()
    return index % 3 === 0 ? reply.stall() : undefined
  }
  const { server, key } = await run.run()
  await ledger.readAll(server.caller(key))
  await server.crash()
  const last = await place.start()
  await ledger.readAll(last.caller(key))
  await allEnded(last.url)
  await last.stop()

  for (const content of ledger.contents()) assert.ok(calls.get(content), `there was no call for ${content}`)
  const { completed = 0, ...others } = jobsByStatus(place.database)
  assert.deepEqual(others, {}, 'what was stored without its caller hearing of it has ended, too')
  assert.ok(completed >= ledger.size)
  assert.deepEqual(usageSums(place.database), expectedUsage(place.database))
  assert.ok(ledger.size >= JOBS_FOR_A_KILL * KILLS, `only ${ledger.size} jobs: too little load`)
  const calledAgain = [...calls.values()].reduce((sum, made) => sum + made - 1, 0)
  assert.ok(calledAgain > 0, 'no kill met a running job')
  t.diagnostic(
    `${KILLS} kills, ${ledger.size} jobs in the ledger, ${completed} stored, ${calledAgain} calls made again`,
  )
}

async function killDuringInserts(t: TestContext): Promise<void> {
  const random = Random.of(t)
  const models = await startModelServer({ script: () => () => {}, keep: false }, t)
  const place = await installation(t, {
    upstream: models.baseUrl,
    settings: { jobs: { max_attempts: 1000 } },
  })
  const acknowledged = new Set<string>()
  let sent = 0
  const run = new CrashRun({
    place,
    random,
    kills: KILLS_OF_BATCHES,
    callers: 12,
    mostEvents: 150,
    ask: async (caller, name) => {
      sent += 1
      const { status, text } = await caller.batch(Array.from({ length: BATCH }, () => name))
      assert.equal(status, 202, text)
      acknowledged.add(name)
    },
    onCalm: () => {},
  })
  const { server } = await run.run()
  await server.crash()

  const stored = jobsByContent(place.database)
  assert.deepEqual(
    [...stored].filter(([, jobs]) => jobs !== BATCH),
    [],
    'batches stored in part',
  )
  assert.deepEqual(
    [...acknowledged].filter((name) => !stored.has(name)),
    [],
    'batches that were acknowledged and are not there',
  )
  const cutOff = sent - acknowledged.size
  assert.ok(cutOff >= CUT_OFF_FOR_A_KILL * KILLS_OF_BATCHES, `only ${cutOff} batches were cut off`)
  t.diagnostic(
    `${KILLS_OF_BATCHES} kills, ${sent} batches sent, ${stored.size} stored, ${acknowledged.size} acknowledged, ${cutOff} cut off`,
  )
}

function count(calls: Map<string, number>, { body }: Received): void {
  const content = String(body.messages[0]?.content)
  calls.set(content, (calls.get(content) ?? 0) + 1)
}

/**
 * Returns the usage of each model, if the model server's count of each stored answer was added once. The model server counts
 * characters as tokens. It has also counted answers that a kill prevented from being stored. Their jobs ran again.
 */
function expectedUsage(database: string): Readonly<Record<string, Readonly<Record<string, number>>>> {
  const sums: Record<string, Record<'jobs' | 'failed' | 'calls' | 'input' | 'output', number>> = {}
  for (const { model, content } of outcomes(database)) {
    sums[model] ??= { jobs: 0, failed: 0, calls: 0, input: 0, output: 0 }
    const sum = sums[model]
    sum.jobs += 1
    sum.calls += 1
    sum.input += content.length - 'echo: '.length
    sum.output += content.length
  }
  return sums
}
