/** Tests `parley callbacks` while a server is running: listing callbacks and replaying them. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import type { CallbackDetails, CallbackSummary } from '../../src/admin/job-view.ts'
import { job } from '../parley.ts'
import { freshDatabase } from '../postgres/database.ts'
import { type Receiver, startReceiver } from '../receiver.ts'
import { startCommands } from './many-commands.ts'
import { type Ended, type Installation, installation } from './server-process.ts'

const timeout = 60_000
const NO_JOB = '01890a5d-ac96-774b-bcce-b302099a8057'

/** Starts a server that tries each callback once, and creates this many jobs with callbacks. */
async function start(t: TestContext, jobs: number, databaseUrl?: string) {
  const receiver = await startReceiver({}, t)
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0] } }
  const place = await installation(t, { settings, ...(databaseUrl && { databaseUrl }) })
  const server = await place.start()
  for (let made = 0; made < jobs; made++)
    receiver.script({ kind: 'answer', status: 503, body: 'busy\u001b[31m' })
  const callback = {
    callback_url: `${receiver.url}/hook`,
    callback_headers: { 'x-token': 'canary' },
    callback_payload: { order: 7 },
  }
  const batch = Array.from({ length: jobs }, () => job({ callback }))
  const created = await server.caller(await server.firstKey()).send('/api/v1/messages/batches', batch)
  await receiver.received(jobs)
  return { place, server, receiver, jobIds: created.body.data?.job_ids ?? [] }
}

const callbacks = (place: Installation, ...args: string[]) => place.parley(['callbacks', ...args])

function json<T>({ stdout, code, stderr }: Ended): T {
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout) as T
}

/** Repeats the command until the server has recorded the results of the attempts. */
async function listed(place: Installation, state: string, count: number): Promise<CallbackSummary[]> {
  for (;;) {
    const views = json<CallbackSummary[]>(await callbacks(place, 'list', '--state', state, '--json'))
    if (views.length === count) return views
  }
}

async function replays(t: TestContext, databaseUrl?: string): Promise<void> {
  const { place, receiver, jobIds } = await start(t, 3, databaseUrl)
  const failed = await listed(place, 'failed', 3)
  assert.deepEqual(failed.map(({ job_id }) => job_id).sort(), [...jobIds].sort())
  const [one = ''] = jobIds
  const shown = json<CallbackDetails>(await callbacks(place, 'show', one, '--json'))
  const { at, ms, ...attempt } = shown.log[0] ?? { at: 0, ms: 0 }
  assert.ok(Math.abs(at - Date.now() / 1000) < 60 && ms < 15_000)
  assert.deepEqual(attempt, { attempt: 1, status: 503, error: null, answer: 'busy\u001b[31m' })
  assert.deepEqual(
    [shown.state, shown.header_names, shown.callback_payload],
    ['failed', ['x-token'], '{"order":7}'],
  )

  await sentAgain(place, receiver, [one], 'replay', one)
  await sentAgain(place, receiver, jobIds.slice(1), 'replay', '--all-failed')
  assert.equal((await listed(place, 'delivered', 3)).length, 3)
  const history = json<CallbackDetails>(await callbacks(place, 'show', one, '--json'))
  assert.deepEqual(
    history.log.map(({ attempt: number, status }) => [number, status]),
    [
      [1, 503],
      [2, 200],
    ],
  )
}

async function sentAgain(
  place: Installation,
  receiver: Receiver,
  jobIds: readonly string[],
  ...args: string[]
) {
  const before = receiver.requests.length
  const { code, stdout } = await callbacks(place, ...args)
  assert.equal(code, 0)
  assert.match(stdout, /due now/)
  const requests = await receiver.received(before + jobIds.length)
  const again = requests.slice(before).map(({ headers }) => String(headers['webhook-id']))
  assert.deepEqual(again.sort(), [...jobIds].sort())
}

test('what failed is listed, shown and replayed, one or all (SQLite)', { timeout }, (t) => replays(t))

test('what failed is listed, shown and replayed, one or all (Postgres)', { timeout }, async (t) =>
  replays(t, await freshDatabase(t)),
)

test('people get a table, no secrets, and nothing that a receiver could do to their terminal', {
  timeout,
}, async (t) => {
  const { place, jobIds } = await start(t, 2)
  await listed(place, 'failed', 2)
  const { stdout } = await callbacks(place, 'list', '--failed')
  assert.match(stdout, /^JOB ID +ACCOUNT +STATE +ATTEMPTS +LAST RESPONSE +RECEIVER\n/)
  assert.equal(stdout.trim().split('\n').length, 3)
  const page = await callbacks(place, 'list', '--failed', '--limit', '1')
  assert.match(page.stdout, /\nFor older callbacks, add --before [0-9a-f-]{36}\n/)
  const { stdout: shown } = await callbacks(place, 'show', jobIds[0] ?? '')
  assert.match(shown, /state +failed 20\d\d-/)
  assert.match(shown, /headers +x-token \(their values are not shown\)/)
  assert.match(shown, /503 busy\\u\{1b\}\[31m/)
  assert.ok(!`${stdout}${shown}`.includes('canary'))
  assert.ok(!`${stdout}${shown}`.includes('\u001b'))
})

test('mistakes are reported in a sentence, and change nothing', { timeout }, async (t) => {
  const place = await installation(t)
  const run = await startCommands(t, place)
  const callbacks = (...args: string[]) => run(['callbacks', ...args])
  const wrong: readonly [RegExp, ...string[]][] = [
    [/No callback found for job/, 'show', NO_JOB],
    [/No callback found for job/, 'replay', NO_JOB],
    [/No callback found for job/, 'replay', 'nonsense'],
    [/either a job ID or --all-failed/, 'replay'],
    [/either a job ID or --all-failed/, 'replay', NO_JOB, '--all-failed'],
    [/--account can only be used with --all-failed/, 'replay', NO_JOB, '--account', 'ada'],
    [/whole number from 1 to 10000/, 'list', '--limit', '0'],
    [/cannot be used with/, 'list', '--failed', '--state', 'owed'],
    [/--before: nonsense is not a job ID/, 'list', '--before', 'nonsense'],
  ]
  for (const [said, ...args] of wrong) {
    const { code, stdout, stderr } = await callbacks(...args)
    assert.deepEqual([code, stdout], [1, ''], args.join(' '))
    assert.match(stderr, said)
  }
  assert.deepEqual(json(await callbacks('list', '--json')), [])
  assert.equal((await callbacks('list', '--failed')).stdout, 'No callback has failed.\n')
  assert.match((await callbacks('replay', '--all-failed')).stdout, /^No callback has failed/)
  // Those of other accounts may have failed.
  const of = ['--account', 'other']
  assert.equal((await callbacks('list', ...of)).stdout, 'There are no callbacks of account other.\n')
  assert.equal(
    (await callbacks('list', '--failed', ...of)).stdout,
    'No callback of account other has failed.\n',
  )
  assert.match(
    (await callbacks('replay', '--all-failed', ...of)).stdout,
    /^No callback of account other has failed/,
  )
})
