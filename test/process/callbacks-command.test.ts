/** Tests `parley callbacks` while a server is running: listing callbacks and replaying them. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import type { CallbackDetails, CallbackSummary } from '../../src/admin/job-view.ts'
import { startReceiver } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { type Database, onBothStores } from './both-stores.ts'
import { idsOf } from './caller.ts'
import { reportEach } from './mistakes.ts'
import { type Installation, installation } from './server-process.ts'

const NO_JOB = '01890a5d-ac96-774b-bcce-b302099a8057'

/** The server tries each callback once, and all callbacks fail. */
async function start(t: TestContext, database: Database) {
  const receiver = await startReceiver({}, t)
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0] } }
  const place = await installation(t, { settings, ...database })
  const server = await place.start()
  const busy = { kind: 'answer', status: 503, body: 'busy\u001b[31m' } as const
  receiver.script(busy, busy, busy)
  const callback = {
    callback_url: `${receiver.url}/hook`,
    callback_headers: { 'x-token': 'canary' },
    callback_payload: { order: 7 },
  }
  const caller = server.caller(await server.firstKey())
  const jobIds = idsOf(await caller.batch(['one', 'two', 'three'], () => ({ callback })))
  await receiver.received(jobIds.length)
  return { place, receiver, jobIds }
}

/** The server records the results of the attempts later, so the command is repeated. */
function listed(place: Installation, state: string, count: number): Promise<CallbackSummary[]> {
  const list = ['callbacks', 'list', '--state', state]
  return eventually(
    () => place.json(list),
    (views) => views.length === count,
  )
}

async function replays(t: TestContext, database: Database): Promise<void> {
  const { place, receiver, jobIds } = await start(t, database)
  const failed = await listed(place, 'failed', 3)
  assert.deepEqual(failed.map(({ job_id }) => job_id).sort(), [...jobIds].sort())
  const [one = ''] = jobIds
  await t.test('people get a table, no secrets, and nothing that a receiver could do to their terminal', () =>
    showsPeople(place, one),
  )
  const shown: CallbackDetails = await place.json(['callbacks', 'show', one])
  const { at, ms, ...attempt } = shown.log[0] ?? { at: 0, ms: 0 }
  assert.ok(Math.abs(at - Date.now() / 1000) < 60 && ms < 15_000)
  assert.deepEqual(attempt, { attempt: 1, status: 503, error: null, answer: 'busy\u001b[31m' })
  const { state, header_names, callback_payload } = shown
  assert.deepEqual([state, header_names, callback_payload], ['failed', ['x-token'], '{"order":7}'])

  const replayed = async (again: readonly string[], what: string) => {
    const before = receiver.requests.length
    assert.match(await place.output(['callbacks', 'replay', what]), /due now/)
    const requests = await receiver.received(before + again.length)
    const sent = requests.slice(before).map(({ headers }) => String(headers['webhook-id']))
    assert.deepEqual(sent.sort(), [...again].sort())
  }
  await replayed([one], one)
  await replayed(jobIds.slice(1), '--all-failed')
  await listed(place, 'delivered', 3)
  const history: CallbackDetails = await place.json(['callbacks', 'show', one])
  assert.deepEqual(
    history.log.map(({ attempt: number, status }) => [number, status]),
    [
      [1, 503],
      [2, 200],
    ],
  )
}

async function showsPeople(place: Installation, jobId: string): Promise<void> {
  const list = await place.output(['callbacks', 'list', '--failed'])
  assert.match(list, /^JOB ID +ACCOUNT +STATE +ATTEMPTS +LAST RESPONSE +RECEIVER\n/)
  assert.equal(list.trim().split('\n').length, 4)
  const page = await place.output(['callbacks', 'list', '--failed', '--limit', '1'])
  assert.match(page, /\nFor older callbacks, add --before [0-9a-f-]{36}\n/)
  const shown = await place.output(['callbacks', 'show', jobId])
  assert.match(shown, /state +failed 20\d\d-/)
  assert.match(shown, /headers +x-token \(their values are not shown\)/)
  assert.match(shown, /503 busy\\u\{1b\}\[31m/)
  for (const hidden of ['canary', '\u001b']) assert.ok(!`${list}${shown}`.includes(hidden), hidden)
}

onBothStores((store) => `what failed is listed, shown and replayed, one or all (${store})`, replays)

test('mistakes are reported in a sentence, and change nothing', async (t) => {
  const place = await installation(t)
  const both = /either a job ID or --all-failed/
  await reportEach(
    t,
    [
      { args: `callbacks show ${NO_JOB}`, says: /No callback found for job/ },
      { args: `callbacks replay ${NO_JOB}`, says: /No callback found for job/ },
      { args: 'callbacks replay nonsense', says: /No callback found for job/ },
      { args: 'callbacks replay', says: both },
      { args: `callbacks replay ${NO_JOB} --all-failed`, says: both },
      {
        args: `callbacks replay ${NO_JOB} --account ada`,
        says: /--account can only be used with --all-failed/,
      },
      { args: 'callbacks list --limit 0', says: /whole number from 1 to 10000/ },
      { args: 'callbacks list --failed --state owed', says: /cannot be used with/ },
      { args: 'callbacks list --before nonsense', says: /--before: nonsense is not a job ID/ },
    ],
    place,
  )
  assert.deepEqual(await place.json(['callbacks', 'list']), [])
  for (const [args, printed] of [
    ['list --failed', /^No callback has failed\.\n$/],
    ['replay --all-failed', /^No callback has failed/],
    ['list --account other', /^There are no callbacks of account other\.\n$/],
    ['list --failed --account other', /^No callback of account other has failed\.\n$/],
    ['replay --all-failed --account other', /^No callback of account other has failed/],
  ] as const) {
    assert.match(await place.output(['callbacks', ...args.split(' ')]), printed)
  }
})
