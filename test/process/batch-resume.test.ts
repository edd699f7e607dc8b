/**
 * Tests `parley batch` when it is killed, interrupted, run twice at the same time, or resumed, and when the server restarts.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { appendFile, readFile, writeFile } from 'node:fs/promises'
import test, { after, type TestContext } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import type { Lifetime } from '../parley.ts'
import { freshDatabase } from '../postgres/database.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { jobLine, rowsOf, startAgain, startAsking } from './asking.ts'
import { assertEnded } from './mistakes.ts'
import { Random } from './random.ts'
import { jobsByContent } from './rows.ts'

const LINES = LONG ? 5000 : 420
const AT_ONCE = 80
const MAX_OPEN_JOBS = 20

/**
 * The model server counts its requests by content. If `isHeld` accepts a request's content, it answers only when `answer` is
 * called.
 */
const calls = new Map<string, number>()
let isHeld = (_content: string) => false
let called = 0
let mostRunning = 0
const models = await startModelServer({
  keep: false,
  script: ({ body }) => {
    const content = String(body.messages.at(-1)?.content)
    calls.set(content, (calls.get(content) ?? 0) + 1)
    called += 1
    mostRunning = Math.max(mostRunning, models.running())
    return isHeld(content) ? reply.stall() : undefined
  },
})
after(() => models.close())

function answer(): void {
  isHeld = () => false
  models.release()
}

const calledMore = (count: number) => models.received(called + count)

const settings = {
  cache: { enabled: false },
  tiers: {
    user_max: { reads_per_minute: 1_000_000 },
    user_pro: { max_open_jobs: MAX_OPEN_JOBS, reads_per_minute: 1_000_000 },
  },
}
const start = (t: Lifetime, options = {}) =>
  startAsking(t, { upstream: models.baseUrl, settings, ...options })
/** The tests share a server, unless they kill it or need other settings. */
const shared = await start({ after })

let runs = 0

type Run = Awaited<ReturnType<typeof newRun>>

/** Writes an input file with its own account and contents, so that its jobs can be told apart. */
async function newRun(lines: number, asking = shared, tier = 'user_max') {
  const account = `account-${++runs}`
  const key = await asking.place.key(account, tier)
  const contents = Array.from({ length: lines }, (_, index) => `${account}, job ${index}`)
  const text = contents.map((content) => jobLine(content)).join('\n')
  const path = await asking.write(`${account}.jsonl`, text)
  const out = `${path}.results.jsonl`
  const options = { env: { PARLEY_API_KEY: key } }
  const ask = (...args: readonly string[]) => asking.ask(['batch', path, ...args], options)
  const begin = (...args: readonly string[]) => asking.begin(['batch', path, ...args], options)
  /** Starts a run, and waits until its first `count` jobs are at the model server, which answers none of them. */
  const beginHeld = async (count: number, ...args: readonly string[]) => {
    isHeld = (content) => content.startsWith(`${account},`)
    const arrived = calledMore(count)
    const program = begin(...args)
    await arrived
    return program
  }
  const assertResults = async () => {
    const rows = rowsOf(await readFile(out, 'utf8'))
    assert.deepEqual(
      rows.map(({ line, status, result }) => [line, status, result?.response_content]),
      contents.map((content, index) => [index + 1, 'completed', `echo: ${content}`]),
    )
    assert.equal(new Set(rows.map(({ job_id }) => job_id)).size, lines)
    assert.ok(!existsSync(`${out}.journal`), 'a finished run leaves no journal')
  }
  return {
    ...{ account, key, contents, text, path, out, journal: `${out}.journal` },
    ...{ ask, begin, beginHeld, assertResults },
    async interrupt(...args: readonly string[]) {
      const program = await beginHeld(lines, ...args)
      program.kill('SIGINT')
      await program.exited
      return program
    },
    async resume(...args: readonly string[]) {
      const ended = await ask(...args)
      assert.equal(ended.code, 0, ended.stderr)
      await assertResults()
      return ended.stderr
    },
    assertEach(counts: ReadonlyMap<string, number>, expected = 1) {
      const wrong = contents.filter((content) => counts.get(content) !== expected)
      assert.deepEqual(wrong, [])
    },
    async reads(state: string) {
      const caller = asking.server.caller(key)
      await eventually(
        () => caller.send('/api/v1/me'),
        (me) => me.text.includes(state),
      )
    },
  }
}

/** Changes the journal as if the program had crashed before it got the response to its first batch. */
async function forgetResponse({ journal }: Run): Promise<void> {
  const [first, sending] = (await readFile(journal, 'utf8')).split('\n')
  await writeFile(journal, `${first}\n${sending}\n`)
}

/** Changes the journal as if its batches had been sent `ageS` seconds ago. */
async function age({ journal }: Run, ageS: number): Promise<void> {
  const at = Math.floor(Date.now() / 1000) - ageS
  await writeFile(journal, (await readFile(journal, 'utf8')).replaceAll(/"at":\d+/g, `"at":${at}`))
}

async function killedTwice(t: TestContext, asking = shared): Promise<void> {
  const random = Random.of(t)
  const run = await newRun(LINES, asking)
  for (let kill = 0; kill < 2; kill++) {
    // Jobs on the server continue after a kill. So the next kill comes only after more calls than these jobs make.
    const moment = calledMore(AT_ONCE + 10 + random.below(LINES * 0.1))
    const program = run.begin('--concurrency', String(AT_ONCE))
    await moment
    // Each event is the end of something, so a kill right after an event would always come at the same moments. A random number
    // of turns varies the moment.
    for (let turns = random.below(200); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve))
    program.kill('SIGKILL')
    const { signal } = await program.exited
    assert.equal(signal, 'SIGKILL', `it had ended before: ${program.stderr}`)
    assert.ok(!existsSync(run.out), 'there are no results before all are there')
  }
  assert.match(await run.resume(), /^Resuming the previous run: \d+ of \d+ lines have a result\.\n/)
  run.assertEach(calls)
}

test(`${LINES} lines, killed twice on the way: ${LINES} results in order, each job run once (SQLite)`, (t) =>
  killedTwice(t))

test(`${LINES} lines, killed twice on the way (Postgres)`, async (t) =>
  killedTwice(t, await start(t, { databaseUrl: await freshDatabase(t) })))

test('a batch whose response was lost is found again by its key', async () => {
  const run = await newRun(60)
  await run.interrupt()
  // Changes the journal as if the program had crashed before it got the response of either batch, and as if the crash had
  // truncated the last line.
  const journal = await readFile(run.journal, 'utf8')
  const kept = journal.split('\n').filter((line) => !line.startsWith('{"sent"') && line !== '')
  await writeFile(run.journal, `${kept.join('\n')}\n{"sent":[0,1`)
  answer()
  await run.resume()
  run.assertEach(jobsByContent(shared.place.database))
  run.assertEach(calls)
})

test('Ctrl-C stops at once, says how to continue, and nothing is run twice', async () => {
  const run = await newRun(250)
  const moment = calledMore(120)
  const program = run.begin('--concurrency', '60')
  await moment
  program.kill('SIGINT')
  assert.deepEqual(await program.exited, { code: 130, signal: null })
  assert.match(
    program.stderr,
    /^Stopped\. \d+ of 250 lines have a result\. Run the same command again to resume; you pay for each job only once\.$/m,
  )
  assert.ok(
    run.contents.some((content) => !calls.has(content)),
    'what was not sent is not run',
  )

  const changed = async (args: readonly string[], says: RegExp) => {
    assertEnded(await run.ask(...args), { code: 1, stderr: says })
  }
  const restored =
    /--model or --drop has changed since.*Restore it to resume, or pass --restart to start over\./
  await changed(['--model', 'gpt-5'], restored)
  await changed(['--url', shared.server.url.replace('127.0.0.1', 'localhost')], /the server has changed/)
  await appendFile(run.path, '\n')
  await changed([], /the input has changed since/)
  await writeFile(run.path, run.text)
  await run.resume('--concurrency', '60')
  run.assertEach(calls)
})

test('--concurrency bounds the jobs at the server, and a second run of the same is refused', async () => {
  const run = await newRun(100)
  mostRunning = 0
  const before = called
  const program = await run.beginHeld(30, '--concurrency', '40')
  assertEnded(await run.ask(), { code: 1, stderr: /Another parley batch process is working on this run/ })
  // The next batch of 30 jobs would exceed the limit of 40.
  assert.equal(called - before, 30)
  answer()
  assert.deepEqual(await program.exited, { code: 0, signal: null })
  assert.ok(mostRunning <= 40)
  await run.assertResults()
})

test('--restart forgets the unfinished run and replaces results', async () => {
  const run = await newRun(20)
  await run.resume()
  await run.resume('--restart')
  run.assertEach(calls, 2)
})

test('a run stays within max_open_jobs, and leaves room for what else the account has open', async () => {
  const run = await newRun(60, shared, 'user_pro')
  const held = ['held 1', 'held 2', 'held 3']
  await shared.write('held.jsonl', held.map((content) => jobLine(content)).join('\n'))
  isHeld = (content) => held.includes(content)
  const arrived = calledMore(held.length)
  const other = shared.begin(['batch', 'held.jsonl'], { env: { PARLEY_API_KEY: run.key } })
  await arrived
  await run.resume()
  answer()
  assert.deepEqual(await other.exited, { code: 0, signal: null })
})

test('a quota of open jobs that is lowered meanwhile does not end a run', async () => {
  const run = await newRun(60)
  const program = await run.beginHeld(30, '--concurrency', '40')
  await shared.place.output(['accounts', 'cap', run.account, '--open-jobs', '15'])
  await run.reads('"max_open_jobs":15')
  answer()
  assert.deepEqual(await program.exited, { code: 0, signal: null }, program.stderr)
  await run.assertResults()
})

test('an interrupted --restart is resumed without that option, which would send all jobs again', async () => {
  const run = await newRun(3)
  const { stderr } = await run.interrupt('--restart')
  assert.match(stderr, /Run the same command again without --restart to resume; you pay/)
  answer()
  await run.resume()
  run.assertEach(calls)
})

test('a server that is killed and started again meanwhile loses nothing', async (t) => {
  const asking = await start(t, { settings: { ...settings, jobs: { concurrency: 8 } } })
  const run = await newRun(300, asking)
  const [first, second] = [calledMore(100), calledMore(200)]
  const program = run.begin('--concurrency', '150')
  await first
  await asking.server.crash()
  const next = await startAgain(asking)
  await second
  await next.stop()
  const last = await startAgain(asking)
  assert.deepEqual(await program.exited, { code: 0, signal: null }, program.stderr)
  await run.assertResults()
  await last.stop()
  run.assertEach(jobsByContent(asking.place.database))
})

test('jobs that the server no longer has are reported as expired', async () => {
  const run = await newRun(3)
  await run.interrupt()
  const journal = await readFile(run.journal, 'utf8')
  const [, gone = ''] = /"job_ids":\["([^"]+)"/.exec(journal) ?? []
  await writeFile(run.journal, journal.replace(gone, '01890a5d-ac96-774b-bcce-b302099a8057'))
  answer()
  const ended = await run.ask('--json')
  assert.equal(ended.code, 2, ended.stderr)
  const { completed, expired } = JSON.parse(ended.stdout) as Record<string, number>
  assert.deepEqual([completed, expired], [2, 1])
})

for (const [ageS, remembered, limits] of [
  [86_500, '24 hours', undefined],
  [700, '10 minutes', { idempotency_seconds: 600 }],
] as const) {
  test(`a batch of unknown outcome is not sent again when the server has forgotten its key after ${remembered}`, async (t) => {
    const run = await newRun(3, limits && (await start(t, { settings: { ...settings, limits } })))
    await run.interrupt()
    await forgetResponse(run)
    await age(run, ageS)
    answer()
    const refused = await run.ask()
    assert.equal(refused.code, 1)
    const text = `Lines 1 to 3 were sent at .*only for ${remembered}\\. Pass --send-again to send these lines again`
    assert.match(refused.stderr, new RegExp(text))
    await run.resume('--send-again')
  })
}

test('a batch of unknown outcome stays unknown if the server rejects it for another reason meanwhile', async () => {
  const run = await newRun(3)
  await run.interrupt()
  await forgetResponse(run)
  await shared.place.output(['accounts', 'suspend', run.account])
  await run.reads('"suspended":true')
  assert.equal((await run.ask()).code, 3)
  await age(run, 86_500)
  const refused = await run.ask()
  assert.match(refused.stderr, /Lines 1 to 3 were sent at .*Pass --send-again/)
  answer()
})
