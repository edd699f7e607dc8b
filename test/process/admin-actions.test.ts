/**
 * Tests admin actions by commands while a server is running: the server applies them in time, and callers notice the effect.
 */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { type ModelServerForTests, reply, startModelServer } from '../model-server.ts'
import { freshDatabase } from '../postgres/database.ts'
import { eventually } from '../support/eventually.ts'
import type { Database } from './both-stores.ts'
import { type Caller, idsOf, type Reply } from './caller.ts'
import { assertEnded, reported } from './mistakes.ts'
import { type Installation, installation, type Server } from './server-process.ts'

const ADMIN_TOKEN = 'admin-token-for-tests'
const KNOWN_WITHIN_MS = 5000
const ENDED_WITHIN_MS = 1000

interface Shared {
  readonly place: Installation
  readonly models: ModelServerForTests
  readonly server: Server
}

interface Place extends Shared {
  readonly account: string
  readonly caller: Caller
  readonly called: number
}

/** Starting a server takes longer than most of the tests, so all tests on a store share one. */
async function start(database: Database): Promise<Shared> {
  const models = await startModelServer()
  after(() => models.close())
  const place = await installation({ after }, { upstream: models.baseUrl, ...database })
  return { place, models, server: await place.start({ env: { PARLEY_ADMIN_TOKEN: ADMIN_TOKEN } }) }
}

let accounts = 0

async function withAccount(shared: Shared): Promise<Place> {
  const { place, models, server } = shared
  models.script = () => undefined
  const account = `acme-${accounts++}`
  const caller = server.caller(await place.key(account))
  return { ...shared, account, caller, called: models.requests.length }
}

const run = (place: Installation, ...args: string[]) => place.output(args)
const json = (place: Installation, ...args: string[]) => place.json(args)

function within(ask: () => Promise<Reply>, accept: (reply: Reply) => boolean): Promise<Reply> {
  return eventually(ask, accept, { withinMs: KNOWN_WITHIN_MS })
}

const onSqlite = await start({})
const onPostgres = await start({ databaseUrl: await freshDatabase({ after }) })

/** A running server must notice what the command changes, and the stores differ in how it does. */
function both(name: string, work: (place: Place) => Promise<void>): void {
  test(`${name} (SQLite)`, async () => work(await withAccount(onSqlite)))
  test(`${name} (Postgres)`, async () => work(await withAccount(onPostgres)))
}

/** Runs on one store only, because test/http/admin/ tests the same actions on both. */
function one(name: string, work: (place: Place) => Promise<void>): void {
  test(name, async () => work(await withAccount(onSqlite)))
}

both(
  'a running job ends within a second of `parley jobs cancel`, and its waiting caller is answered',
  async ({ place, models, server: { url }, account: own, called, caller }) => {
    models.script = () => reply.stall()
    const waiting = caller.single('stalls')
    await models.received(called + 1)
    // The caller that waits does not know the ID yet, and the job's status is stored after its call has started.
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
    const openJob = async () => {
      const open = await fetch(`${url}/admin/api/jobs?status=assigned`, { headers })
      const { data } = (await open.json()) as { data: { jobs: readonly { job_id: string }[] } }
      return data.jobs[0]?.job_id ?? ''
    }
    const jobId = await eventually(openJob, (id) => id !== '')
    await run(place, 'jobs', 'cancel', jobId)
    const endedMs = Date.now()
    assert.equal(await models.requests[called]?.ended, 'cut')
    const answer = await waiting
    const tookMs = Date.now() - endedMs
    assert.ok(tookMs < ENDED_WITHIN_MS, `${tookMs} ms`)
    assert.deepEqual([answer.status, answer.body.data?.error?.code], [200, 'cancelled'])
    const read = await caller.read(jobId)
    assert.deepEqual([read.body.data?.status, read.body.data?.error?.code], ['failed', 'cancelled'])
    const [entry] = await json(place, 'audit', '--limit', '1')
    const { what, account, target, outcome } = entry
    assert.deepEqual([what, account, target, outcome], ['cancel a job', own, jobId, 'cancelled'])
    assert.match(entry.who, /^[^@]+@\S+ \(command line\)$/)
    reported(await place.parley(['jobs', 'cancel', jobId]), /has already finished, so it was not cancelled/)
  },
)

both(
  'a suspended account creates nothing within seconds, reads on, and is resumed',
  async ({ place, models, caller, account: own, called }) => {
    const done = await caller.single('first')
    models.script = () => reply.stall()
    const open = idsOf(await caller.batch(['a', 'b']))
    await models.received(called + 3)
    const suspended = await json(place, 'accounts', 'suspend', own, '--cancel')
    assert.equal(suspended.cancelled, 2)
    assert.ok(Math.abs(suspended.suspended_at - Date.now() / 1000) < 60)
    models.script = () => undefined
    const refused = await caller.single('second')
    assert.ok(refused.body.message.includes(`${own} is suspended`), refused.text)
    assert.equal(refused.status, 403)
    for (const id of open) assert.equal((await caller.read(id)).body.data?.error?.code, 'cancelled')
    assert.equal((await caller.read(done.body.data?.job_id ?? '')).body.data?.status, 'completed')
    const listed = (await json(place, 'accounts', 'list')) as { name: string; suspended_at: number }[]
    const acme = listed.find(({ name }) => name === own)
    assert.equal(acme?.suspended_at, suspended.suspended_at)
    await run(place, 'accounts', 'resume', own)
    await within(
      () => caller.single('third'),
      ({ status }) => status === 200,
    )
  },
)

one('a command sets and clears where events are sent', async ({ place, account }) => {
  const url = 'https://example.com/events'
  assert.deepEqual(await json(place, 'accounts', 'webhook', account, url), {
    name: account,
    webhook_url: url,
  })
  const stdout = await run(place, 'accounts', 'webhook', account, '--clear')
  assert.match(stdout, /has no webhook/)
  for (const args of [[], [url, '--clear']]) {
    reported(await place.parley(['accounts', 'webhook', account, ...args]), /either a URL or --clear/)
  }
  const wrong = await place.parley(['accounts', 'webhook', account, 'example.com'])
  assert.match(wrong.stderr, /The URL must be an absolute http or https URL/)
})

both('caps that a command sets are in force within seconds', async ({ place, caller, account: own }) => {
  await caller.single('first')
  const set = (options: string) => ['accounts', 'cap', own, ...options.split(' ')]
  const at = (jobs: number | string, tokens: number | string, others = {}) => ({
    ...{ name: own, max_monthly_jobs: jobs, max_monthly_tokens: tokens },
    ...{ max_open_jobs: 'tier', max_stored_bytes: 'tier', ...others },
  })
  assert.deepEqual(await json(place, ...set('--jobs 1')), at(1, 'tier'))
  const reached = await within(
    () => caller.single('second'),
    ({ status }) => status === 403,
  )
  assert.match(reached.body.message, /^Monthly cap reached: account \S+ allows 1 jobs/)
  for (const [options, caps] of [
    ['--jobs none --tokens 1', at('none', 1)],
    ['--tokens tier', at('none', 'tier')],
    ['--monthly-cost 12.5', at('none', 'tier', { max_monthly_cost: 12.5 })],
    ['--monthly-cost tier', at('none', 'tier')],
    ['--open-jobs 0 --stored-bytes none', at('none', 'tier', { max_open_jobs: 0, max_stored_bytes: 'none' })],
  ] as const) {
    assert.deepEqual(await json(place, ...set(options)), caps, options)
  }
  const quota = await within(
    () => caller.single('third'),
    ({ body }) => /^Quota reached: account \S+ allows 0 open jobs/.test(body.message),
  )
  assert.equal(quota.status, 403)
  const one = await run(place, ...set('--jobs 1 --monthly-cost none --stored-bytes 1'))
  assert.match(
    one,
    /: 1 job, tier default for tokens, unlimited cost\.\nQuotas: 0 open jobs, 1 stored byte\./,
  )
  await run(place, ...set('--jobs none --monthly-cost 12.5 --stored-bytes none'))
  const listed = await run(place, 'accounts', 'list')
  assert.match(listed, / TOKENS PER MONTH +COST PER MONTH +OPEN JOBS \/ MAX +STORED BYTES \/ MAX/)
  assert.match(listed, new RegExp(`^${own} .* none +tier +12\\.5 +0 / 0 +\\d+ / none`, 'm'))
})

one('usage is what the jobs used, in every form', async ({ place, models, caller, account: own }) => {
  const texts = ['one', 'three', 'seven']
  for (const text of texts) await caller.single(text)
  await caller.single('one')
  models.script = () => reply.status(400)
  await caller.single('fails', { model: 'gpt-5' })
  // The model server counts characters as tokens, and its answer is an echo of the message.
  const input = texts.join('').length
  const output = texts.map((text) => `echo: ${text}`).join('').length
  const month = new Date().toISOString().slice(0, 7)
  const sums = { failed_jobs: 0, cache_hits: 1, calls: 3, input_tokens: input, output_tokens: output }
  const none = { cache_hits: 0, calls: 1, input_tokens: 0, output_tokens: 0 }
  assert.deepEqual(await json(place, 'usage', '--account', own, '--month', month), [
    { account: own, month, model: 'gpt-5', jobs: 1, failed_jobs: 1, ...none },
    { account: own, month, model: 'gpt-5-mini', jobs: 4, ...sums },
  ])
  const csv = await run(place, 'usage', '--account', own, '--csv')
  assert.equal(
    csv,
    `month,account,model,jobs,failed_jobs,cache_hits,calls,input_tokens,output_tokens
${month},${own},gpt-5,1,1,0,1,0,0
${month},${own},gpt-5-mini,4,0,1,3,${input},${output}
`,
  )
  const all = { jobs: 5, failed_jobs: 1, cache_hits: 1, calls: 4, input_tokens: input, output_tokens: output }
  assert.deepEqual(await json(place, 'usage', '--account', own, '--by', 'account'), [
    { account: own, ...all },
  ])
  assert.deepEqual(await json(place, 'usage', '--account', own, '--by', 'model,account'), [
    { model: 'gpt-5', account: own, jobs: 1, failed_jobs: 1, ...none },
    { model: 'gpt-5-mini', account: own, jobs: 4, ...sums },
  ])
  const byMonth = await run(place, 'usage', '--account', own, '--by', 'month', '--csv')
  assert.equal(
    byMonth,
    `month,jobs,failed_jobs,cache_hits,calls,input_tokens,output_tokens\n${month},5,1,1,4,${input},${output}\n`,
  )
  const byModel = await run(place, 'usage', '--account', own, '--by', 'model')
  assert.match(byModel, /^MODEL +JOBS +FAILED +CACHE HITS +CALLS +INPUT +OUTPUT\ngpt-5 +1 +1 +0 +1 +0 +0\n/)
  const shown = await run(place, 'usage', '--account', own)
  assert.match(shown, new RegExp(`\n${month} +all +5 +1 +1 +4 +${input} +${output}\n$`))
  assert.equal(await run(place, 'usage', '--month', '1999-01'), 'No usage was recorded.\n')
  const noEntries = await run(place, 'audit', '--account', 'nobody')
  assert.equal(noEntries, 'The audit log has no such entries.\n')
})

one('usage by metadata is that of the jobs that are stored', async ({ place, caller, account: own }) => {
  const of = (customer: string) => ({ metadata: { customer } })
  await caller.single('one', of('=1+1'))
  await caller.single('three', of('berta'))
  await caller.single('seven', of('berta'))
  await caller.single('eleven')
  const sums = (await json(place, 'usage', '--account', own, '--by', 'model,metadata.customer')) as object[]
  const [first, second, none, ...others] = sums.map((row) => Object.values(row).slice(0, 3))
  assert.deepEqual(
    [first, second],
    [
      ['gpt-5-mini', '=1+1', 1],
      ['gpt-5-mini', 'berta', 2],
    ],
  )
  assert.deepEqual([none, others], [['gpt-5-mini', '', 1], []])
  const stdout = await run(place, 'usage', '--account', own, '--by', 'metadata.customer', '--csv')
  assert.match(stdout, /^metadata\.customer,jobs,failed_jobs,.*\n'=1\+1,1,0,0,1,.*\nberta,2,0,0,2,/)
  const shown = await run(place, 'usage', '--account', own, '--by', 'metadata.customer')
  assert.match(shown, /^METADATA\.CUSTOMER +JOBS/)
})

one(
  'an account is deleted for good while the server goes on; the audit log says by whom',
  async ({ place, models, caller, account: own, called }) => {
    await caller.single('first')
    models.script = () => reply.stall()
    await caller.batch(['stalls'])
    await models.received(called + 2)
    const env = { PARLEY_OPERATOR: 'alice' }
    const ended = await place.parley(['accounts', 'delete', own, '--yes', '--json'], { env })
    assert.equal(ended.code, 0, ended.stderr)
    const { usage_as: usageAs, ...printed } = JSON.parse(ended.stdout)
    assert.deepEqual(printed, { deleted: true, jobs: 2, cancelled: 1, scrubbed: true })
    assert.match(usageAs, /^deleted-[0-9a-f]{8}$/)
    assert.match(ended.stderr, /^Waiting until every node applies the change …\nCancelling its jobs …\n/)
    assert.equal(await models.requests[called + 1]?.ended, 'cut')
    await within(
      () => caller.send('/api/v1/me'),
      ({ status }) => status === 401,
    )
    assert.deepEqual(await json(place, 'usage', '--account', own), [])
    const names = (await json(place, 'accounts', 'list')).map(({ name }: { name: string }) => name)
    assert.ok(!names.includes(own), names.join())
    const [entry] = await json(place, 'audit', '--account', own)
    assert.match(entry.who, /^alice@\S+ \(command line\)$/)
    assert.deepEqual([entry.what, entry.details], ['delete an account', { scrub: true }])
    const shown = await run(place, 'audit', '--limit', '1')
    assert.match(
      shown,
      /^WHEN +WHO +WHAT .*\n.*alice@.*delete an account.*\nFor older entries, add --before [0-9a-f-]{36}\n$/,
    )
  },
)

one('a job is deleted once it has ended', async ({ place, models, caller, account: own, called }) => {
  models.script = () => reply.stall()
  const [id = ''] = idsOf(await caller.batch(['stalls']))
  await models.received(called + 1)
  reported(await place.parley(['jobs', 'delete', id]), new RegExp(`parley jobs cancel ${id}`))
  assert.deepEqual(await json(place, 'jobs', 'cancel', '--account', own), { cancelled: 0 })
  assert.deepEqual(await json(place, 'jobs', 'cancel', '--account', own, '--running'), { cancelled: 1 })
  const stdout = await run(place, 'jobs', 'delete', id, '--no-scrub')
  assert.match(stdout, /was deleted\. Its data stays in free pages .*`parley scrub`/)
  assert.equal((await caller.read(id)).status, 404)
  assert.deepEqual(await json(place, 'scrub'), { scrubbed: true })
})

one('jobs are rerun by the running server', async ({ place, models, caller, account: own }) => {
  models.script = () => reply.status(400)
  const ids: string[] = []
  for (const text of ['a', 'b', 'c']) ids.push(...idsOf(await caller.single(text)))
  models.script = () => undefined
  const [id = '', ...others] = ids
  const one = await json(place, 'jobs', 'rerun', id)
  assert.equal(one.rerun_of, id)
  const made = await within(
    () => caller.read(one.job_id),
    ({ body }) => body.data?.status === 'completed',
  )
  assert.deepEqual(made.body.data?.result, { response_content: 'echo: a' })
  const again = await place.parley(['jobs', 'rerun', id])
  reported(again, new RegExp(`was not rerun\\. It was rerun as ${one.job_id}\\..*--again`))
  const { jobs, ...rest } = await json(
    place,
    'jobs',
    'rerun',
    '--account',
    own,
    '--error-code',
    'model_error',
  )
  assert.deepEqual(jobs.map(({ rerun_of }: { rerun_of: string }) => rerun_of).sort(), others)
  assert.deepEqual(rest, { skipped: 1, refused: [], waiting: 0, next: null })
  const stdout = await run(place, 'jobs', 'rerun', '--account', own)
  assert.equal(stdout, '0 jobs were rerun.\n3 skipped: they were rerun before, or are reruns.\n')
  const acts = await json(place, 'audit', '--account', own)
  assert.deepEqual(
    [0, 1, 3].map((at) => acts[at]).map(({ what, outcome }: Record<string, string>) => [what, outcome]),
    [
      ['rerun jobs', '0 rerun, 3 skipped, 0 refused, 0 waiting'],
      ['rerun jobs', '2 rerun, 1 skipped, 0 refused, 0 waiting'],
      ['rerun a job', `rerun as ${one.job_id}`],
    ],
  )
})

test('a rerun that is requested while no server runs is made by the next one', async (t) => {
  const place = await installation(t)
  const first = await place.start()
  const key = await first.firstKey()
  const [id = ''] = idsOf(await first.caller(key).single('Once more.'))
  await first.stop()
  const asked = await place.parley(['jobs', 'rerun', id])
  assertEnded(asked, { code: 0, stderr: '', stdout: /is requested\. No server has made it yet\./ })
  const again = await place.parley(['jobs', 'rerun', '--status', 'completed'])
  assert.match(again.stdout, /^0 jobs were rerun\.\n1 skipped/)
  const second = await place.start()
  const list = () => second.caller(key).send('/api/v1/messages')
  const both = await eventually(list, ({ text }) => text.match(/"job_id"/g)?.length === 2)
  assert.equal(both.status, 200)
})
