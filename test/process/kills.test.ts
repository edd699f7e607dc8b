/**
 * P1, P2, P4 and P6 in short: a server killed at random moments under load, on one database. The ledger of what was
 * accepted is kept outside, by the callers.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type ModelServerForTests, reply, startModelServer } from '../model-server.ts'
import type { Caller } from './caller.ts'
import { CrashRun } from './crash-run.ts'
import { Ledger } from './ledger.ts'
import { Random } from './random.ts'
import { jobsByContent, jobsByStatus } from './rows.ts'
import { installation } from './server-process.ts'

const timeout = 120_000
const KILLS = 20
const KILLS_OF_BATCHES = 10
const BATCH = 30

test(`after ${KILLS} kills under load every accepted job has ended, once and for ever`, {
  timeout,
}, async (t) => {
  const random = seeded(t)
  const models = await startModelServer()
  t.after(() => models.close())
  const settings = { jobs: { concurrency: 24, max_attempts: 1000 } }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  const ledger = new Ledger((content) => `echo: ${content}`)
  const createBatch = async (caller: Caller, name: string) => {
    const contents = Array.from({ length: 1 + random.below(BATCH) }, (_, index) => `${name}, job ${index}`)
    ledger.accepted(contents, await caller.batch(contents))
  }
  const run = new CrashRun({
    place,
    random,
    kills: KILLS,
    callers: 8,
    mostEvents: 240,
    ask: async (caller, name) => {
      const choice = random.below(10)
      if (choice < 5) ledger.accepted([name], await caller.single(name))
      else if (choice < 7) await createBatch(caller, name)
      else await ledger.readAny(caller, random)
    },
    onCalm: () => answerAll(models),
  })
  models.script = (_request, index) => {
    run.event()
    // Some calls are held until others come, so that a kill finds jobs at every stage; never so many that all wait.
    if (models.running() > 5) models.release()
    return index % 3 === 0 ? reply.stall() : undefined
  }
  const { server, key } = await run.run()
  await ledger.readAll(server.caller(key))
  await server.crash()
  const last = await place.start()
  await ledger.readAll(last.caller(key))
  await last.stop()

  const calls = callsByContent(models)
  for (const content of ledger.contents()) assert.ok(calls.get(content), `there was no call for ${content}`)
  const { completed = 0, ...others } = jobsByStatus(place.database)
  assert.deepEqual(others, {}, 'what was stored without its caller hearing of it has ended, too')
  assert.ok(completed >= ledger.size)
  assert.ok(ledger.size >= 20 * KILLS, `only ${ledger.size} jobs: too little load to prove anything`)
  const calledAgain = models.requests.length - calls.size
  assert.ok(calledAgain > 0, 'no kill met a running job')
  t.diagnostic(`${ledger.size} jobs in the ledger, ${completed} stored, ${calledAgain} calls made again`)
})

test(`after ${KILLS_OF_BATCHES} kills during inserts of ${BATCH} no batch is there in part`, {
  timeout,
}, async (t) => {
  const random = seeded(t)
  const models = await startModelServer({ script: () => () => {}, keep: false })
  t.after(() => models.close())
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
  assert.ok(sent > acknowledged.size, 'no kill met an insert')
  t.diagnostic(`${sent} batches sent, ${stored.size} stored, ${acknowledged.size} acknowledged`)
})

function seeded(t: TestContext): Random {
  const random = new Random()
  t.diagnostic(`PARLEY_TEST_SEED=${random.seed}`)
  return random
}

function answerAll(models: ModelServerForTests): void {
  models.script = () => undefined
  models.release()
}

function callsByContent({ requests }: ModelServerForTests): Map<string, number> {
  const calls = new Map<string, number>()
  for (const { body } of requests) {
    const content = String(body.messages[0]?.content)
    calls.set(content, (calls.get(content) ?? 0) + 1)
  }
  return calls
}
