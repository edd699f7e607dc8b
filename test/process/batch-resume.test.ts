/**
 * Tests `parley batch` when it is killed, interrupted, run twice at the same time, or resumed, and when the server restarts.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { type ModelServerForTests, reply, type Script, startModelServer } from '../model-server.ts'
import { freshDatabase } from '../postgres/database.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { type Asking, jobLine, rowsOf, startAgain, startAsking } from './asking.ts'
import { Random } from './random.ts'
import { jobsByContent } from './rows.ts'
import type { Program } from './server-process.ts'

const timeout = 120_000
const LINES = LONG ? 5000 : 600
/** How many unfinished jobs a run has on the server at most. */
const AT_ONCE = 80
const OUT = 'jobs.jsonl.results.jsonl'
const JOURNAL = `${OUT}.journal`

const linesOf = (count: number) => Array.from({ length: count }, (_, index) => jobLine(`job ${index}`))

/** Starts a model server that counts its requests by content. */
async function startCounting(
  t: TestContext,
): Promise<{ models: ModelServerForTests; calls: Map<string, number> }> {
  const calls = new Map<string, number>()
  const models = await startModelServer(
    {
      keep: false,
      script: ({ body }) => {
        const content = String(body.messages.at(-1)?.content)
        calls.set(content, (calls.get(content) ?? 0) + 1)
        return undefined
      },
    },
    t,
  )
  return { models, calls }
}

interface StallOptions {
  readonly called?: number
  readonly args?: readonly string[]
  readonly limits?: { readonly idempotency_seconds: number } | undefined
}

interface Stalled {
  readonly asking: Asking
  readonly models: ModelServerForTests
  readonly program: Program
  readonly journal: string
  /** Lets the model server answer, from now on and what it has received. */
  answer(): void
}

/** Starts a run, and waits until its first `called` jobs are at the model server, which answers none of them. */
async function startStalled(
  t: TestContext,
  lines: number,
  { called = lines, args = [], limits }: StallOptions = {},
): Promise<Stalled> {
  const models = await startModelServer({ script: () => reply.stall() }, t)
  const asking = await startAsking(t, { upstream: models.baseUrl, ...(limits && { settings: { limits } }) })
  await asking.write('jobs.jsonl', linesOf(lines).join('\n'))
  const program = asking.begin(['batch', 'jobs.jsonl', ...args])
  await models.received(called)
  const answer = () => {
    models.script = () => undefined
    models.release()
  }
  return { asking, models, program, journal: join(asking.place.folder, JOURNAL), answer }
}

async function interrupted(
  t: TestContext,
  lines: number,
  args: readonly string[] = [],
  limits?: StallOptions['limits'],
): Promise<Stalled> {
  const stalled = await startStalled(t, lines, { args, limits })
  stalled.program.kill('SIGINT')
  await stalled.program.exited
  return stalled
}

async function assertResults({ place }: Asking, count: number): Promise<void> {
  const rows = rowsOf(await readFile(join(place.folder, OUT), 'utf8'))
  assert.deepEqual(
    rows.map(({ line, status, result }) => [line, status, result?.response_content]),
    Array.from({ length: count }, (_, index) => [index + 1, 'completed', `echo: job ${index}`]),
  )
  assert.equal(new Set(rows.map(({ job_id }) => job_id)).size, count)
  assert.ok(!existsSync(join(place.folder, JOURNAL)), 'a finished run leaves no journal')
}

async function killedTwice(t: TestContext, count: number, databaseUrl?: string): Promise<void> {
  const random = new Random()
  t.diagnostic(`PARLEY_TEST_SEED=${random.seed}`)
  const { models, calls } = await startCounting(t)
  const asking = await startAsking(t, {
    upstream: models.baseUrl,
    ...(databaseUrl !== undefined && { databaseUrl }),
  })
  await asking.write('jobs.jsonl', linesOf(count).join('\n'))
  for (let kill = 0, called = 0; kill < 2; kill++) {
    // Jobs on the server continue after a kill. So the next kill comes only after more calls than these jobs make.
    called += AT_ONCE + 30 + random.below(count * 0.15)
    const program = asking.begin(['batch', 'jobs.jsonl', '--concurrency', String(AT_ONCE)])
    await models.received(called)
    // The random number of turns varies the moment of the kill, because each event is the end of something.
    for (let turns = random.below(200); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve))
    program.kill('SIGKILL')
    const { signal } = await program.exited
    assert.equal(signal, 'SIGKILL', `it had ended before: ${program.stderr}`)
    assert.ok(!existsSync(join(asking.place.folder, OUT)), 'there are no results before all are there')
    t.diagnostic(`killed after ${calls.size} calls`)
    called = calls.size
  }
  const ended = await asking.run(['batch', 'jobs.jsonl'])
  assert.equal(ended.code, 0, ended.stderr)
  assert.match(ended.stderr, /^Resuming the previous run: \d+ of \d+ lines have a result\.\n/)
  await assertResults(asking, count)
  assert.equal(calls.size, count)
  assert.deepEqual(
    [...calls].filter(([, times]) => times !== 1),
    [],
    'each job is run once',
  )
}

test(
  `${LINES} lines, killed twice on the way: ${LINES} results in order, each job run once (SQLite)`,
  { timeout },
  (t) => killedTwice(t, LINES),
)

test(`${LINES} lines, killed twice on the way (Postgres)`, { timeout }, async (t) =>
  killedTwice(t, LINES, await freshDatabase(t)),
)

test('a batch whose response was lost is found again by its key', { timeout }, async (t) => {
  const { asking, models, journal: file, answer } = await interrupted(t, 60)
  // Changes the journal as if the program had crashed before it got the response of either batch, and as if the crash had
  // truncated the last line.
  const journal = await readFile(file, 'utf8')
  const kept = journal.split('\n').filter((line) => !line.startsWith('{"sent"') && line !== '')
  await writeFile(file, `${kept.join('\n')}\n{"sent":[0,1`)
  answer()
  const ended = await asking.run(['batch', 'jobs.jsonl'])
  assert.equal(ended.code, 0, ended.stderr)
  await assertResults(asking, 60)
  await asking.server.stop()
  assert.equal(jobsByContent(asking.place.database).size, 60)
  assert.deepEqual(
    [...jobsByContent(asking.place.database).values()].filter((jobs) => jobs !== 1),
    [],
  )
  assert.equal(models.requests.length, 60)
})

test('Ctrl-C stops at once, says how to continue, and nothing is run twice', { timeout }, async (t) => {
  const { models, calls } = await startCounting(t)
  const asking = await startAsking(t, { upstream: models.baseUrl })
  await asking.write('jobs.jsonl', linesOf(400).join('\n'))
  const program = asking.begin(['batch', 'jobs.jsonl', '--concurrency', '60'])
  await models.received(120)
  program.kill('SIGINT')
  assert.deepEqual(await program.exited, { code: 130, signal: null })
  assert.match(
    program.stderr,
    /^Stopped\. \d+ of 400 lines have a result\. Run the same command again to resume; you pay for each job only once\.$/m,
  )
  assert.ok(calls.size < 400, 'what was not sent is not run')

  const changed = async (args: readonly string[], says: RegExp) => {
    const refused = await asking.run(['batch', 'jobs.jsonl', ...args])
    assert.equal(refused.code, 1, refused.stderr)
    assert.match(refused.stderr, says)
  }
  await changed(
    ['--model', 'gpt-5'],
    /--model or --drop has changed since.*Restore it to resume, or pass --restart to start over\./,
  )
  await changed(['--url', asking.server.url.replace('127.0.0.1', 'localhost')], /the server has changed/)
  await appendFile(join(asking.place.folder, 'jobs.jsonl'), '\n')
  await changed([], /the input has changed since/)
  await asking.write('jobs.jsonl', linesOf(400).join('\n'))

  const ended = await asking.run(['batch', 'jobs.jsonl', '--concurrency', '60'])
  assert.equal(ended.code, 0, ended.stderr)
  await assertResults(asking, 400)
  assert.deepEqual(
    [...calls.values()].filter((times) => times !== 1),
    [],
  )
})

test('--concurrency bounds the jobs at the server, and a second run of the same is refused', {
  timeout,
}, async (t) => {
  const { asking, models, program, answer } = await startStalled(t, 100, {
    called: 30,
    args: ['--concurrency', '40'],
  })
  const second = await asking.run(['batch', 'jobs.jsonl'])
  assert.equal(second.code, 1)
  assert.match(second.stderr, /Another parley batch process is working on this run/)
  // The next batch of 30 jobs would exceed the limit of 40.
  assert.equal(models.requests.length, 30)
  answer()
  assert.deepEqual(await program.exited, { code: 0, signal: null })
  assert.ok(models.mostRunning() <= 40)
  await assertResults(asking, 100)
})

test('--restart forgets the unfinished run and replaces results', { timeout }, async (t) => {
  const { models, calls } = await startCounting(t)
  const asking = await startAsking(t, { upstream: models.baseUrl, settings: { cache: { enabled: false } } })
  await asking.write('jobs.jsonl', linesOf(20).join('\n'))
  assert.equal((await asking.run(['batch', 'jobs.jsonl'])).code, 0)
  const again = await asking.run(['batch', 'jobs.jsonl', '--restart'])
  assert.equal(again.code, 0, again.stderr)
  await assertResults(asking, 20)
  assert.deepEqual([...new Set(calls.values())], [2])
})

test('a run stays within max_open_jobs, and leaves room for what else the account has open', {
  timeout,
}, async (t) => {
  const isHeld = (content: unknown) => /held/.test(JSON.stringify(content))
  const script: Script = ({ body }) => (isHeld(body.messages) ? reply.stall() : undefined)
  const models = await startModelServer({ script }, t)
  const settings = { tiers: { user_max: { max_open_jobs: 20 } } }
  const asking = await startAsking(t, { upstream: models.baseUrl, settings })
  await asking.write('held.jsonl', [1, 2, 3].map((n) => jobLine(`held ${n}`)).join('\n'))
  const other = asking.begin(['batch', 'held.jsonl'])
  await models.received(3)
  await asking.write('jobs.jsonl', linesOf(60).join('\n'))
  const ended = await asking.run(['batch', 'jobs.jsonl'])
  assert.equal(ended.code, 0, ended.stderr)
  await assertResults(asking, 60)
  models.release()
  assert.deepEqual(await other.exited, { code: 0, signal: null })
})

test('a quota of open jobs that is lowered meanwhile does not end a run', { timeout }, async (t) => {
  const { asking, program, answer } = await startStalled(t, 60, {
    called: 30,
    args: ['--concurrency', '40'],
  })
  const capped = await asking.run(['accounts', 'cap', 'default', '--open-jobs', '15'])
  assert.equal(capped.code, 0, capped.stderr)
  const caller = asking.server.caller(asking.key)
  await eventually(
    () => caller.send('/api/v1/me'),
    ({ text }) => text.includes('"max_open_jobs":15'),
  )
  answer()
  assert.deepEqual(await program.exited, { code: 0, signal: null }, program.stderr)
  await assertResults(asking, 60)
})

test('an interrupted --restart is resumed without that option, which would send all jobs again', {
  timeout,
}, async (t) => {
  const { asking, models, program, answer } = await interrupted(t, 3, ['--restart'])
  assert.match(program.stderr, /Run the same command again without --restart to resume; you pay/)
  answer()
  const ended = await asking.run(['batch', 'jobs.jsonl'])
  assert.equal(ended.code, 0, ended.stderr)
  await assertResults(asking, 3)
  assert.equal(models.requests.length, 3)
})

test('a server that is killed and started again meanwhile loses nothing', { timeout }, async (t) => {
  const { models } = await startCounting(t)
  const asking = await startAsking(t, { upstream: models.baseUrl, settings: { jobs: { concurrency: 8 } } })
  await asking.write('jobs.jsonl', linesOf(600).join('\n'))
  const program: Program = asking.begin(['batch', 'jobs.jsonl', '--concurrency', '150'])
  await models.received(100)
  await asking.server.crash()
  const next = await startAgain(asking)
  await models.received(300)
  await next.stop()
  const last = await startAgain(asking)
  assert.deepEqual(await program.exited, { code: 0, signal: null }, program.stderr)
  await assertResults(asking, 600)
  await last.stop()
  const jobs = jobsByContent(asking.place.database)
  assert.equal(jobs.size, 600)
  assert.deepEqual(
    [...jobs.values()].filter((count) => count !== 1),
    [],
    'no job is made twice',
  )
})

test('jobs that the server no longer has are reported as expired', { timeout }, async (t) => {
  const { asking, journal: file, answer } = await interrupted(t, 3)
  const journal = await readFile(file, 'utf8')
  const [, gone = ''] = /"job_ids":\["([^"]+)"/.exec(journal) ?? []
  await writeFile(file, journal.replace(gone, '01890a5d-ac96-774b-bcce-b302099a8057'))
  answer()
  const ended = await asking.run(['batch', 'jobs.jsonl', '--json'])
  assert.equal(ended.code, 2, ended.stderr)
  const { completed, expired } = JSON.parse(ended.stdout) as Record<string, number>
  assert.deepEqual([completed, expired], [2, 1])
})

for (const [age, remembered, limits] of [
  [86_500, '24 hours', undefined],
  [700, '10 minutes', { idempotency_seconds: 600 }],
] as const) {
  test(`a batch of unknown outcome is not sent again when the server has forgotten its key after ${remembered}`, {
    timeout,
  }, async (t) => {
    const { asking, journal: file, answer } = await interrupted(t, 3, [], limits)
    const [first, sending] = (await readFile(file, 'utf8')).split('\n')
    const long = Math.floor(Date.now() / 1000) - age
    await writeFile(file, `${first}\n${sending?.replace(/"at":\d+/, `"at":${long}`)}\n`)
    answer()
    const refused = await asking.run(['batch', 'jobs.jsonl'])
    assert.equal(refused.code, 1)
    const text = `Lines 1 to 3 were sent at .*only for ${remembered}\\. Pass --send-again to send these lines again`
    assert.match(refused.stderr, new RegExp(text))
    const ended = await asking.run(['batch', 'jobs.jsonl', '--send-again'])
    assert.equal(ended.code, 0, ended.stderr)
    await assertResults(asking, 3)
  })
}

test('a batch of unknown outcome stays unknown if the server rejects it for another reason meanwhile', {
  timeout,
}, async (t) => {
  const { asking, journal: file } = await interrupted(t, 3)
  const [first, sending] = (await readFile(file, 'utf8')).split('\n')
  await writeFile(file, `${first}\n${sending}\n`)
  assert.equal((await asking.run(['accounts', 'suspend', 'default'])).code, 0)
  const caller = asking.server.caller(asking.key)
  await eventually(
    () => caller.send('/api/v1/me'),
    ({ text }) => text.includes('"suspended":true'),
  )
  assert.equal((await asking.run(['batch', 'jobs.jsonl'])).code, 3)
  const long = Math.floor(Date.now() / 1000) - 86_500
  await writeFile(file, (await readFile(file, 'utf8')).replaceAll(/"at":\d+/g, `"at":${long}`))
  const refused = await asking.run(['batch', 'jobs.jsonl'])
  assert.match(refused.stderr, /Lines 1 to 3 were sent at .*Pass --send-again/)
})
