/** P15: an account learns nothing of another's jobs, whatever their state: each of their ids is answered as an unknown one is. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job, type Parley } from '../parley.ts'
import { LONG } from '../support/long-form.ts'
import { completed, enqueued, granted } from './expect.ts'
import { documentedRoutes } from './openapi/document.ts'
import { type Stage, startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
/** Each asks for the job of each other. */
const ACCOUNTS = LONG ? 101 : 6
const AT_ONCE = 20
const CONCURRENCY = 2
/** Headers that are no two times the same for one account, either. */
const CHANGING = ['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset']

interface Account {
  readonly key: string
  readonly jobId: string
}

/** Accounts with one job each, in every state that a job may be in. */
async function accountsWithJobs({ parley, models }: Stage): Promise<Account[]> {
  const keys = await Promise.all(
    Array.from({ length: ACCOUNTS }, (_, index) => parley.key('user_pro', `account-${index}`)),
  )
  const create = async (key: string, kind: string) => {
    const messages = [{ role: 'user', content: kind }]
    const [jobId = ''] = enqueued(await parley.post(BATCHES, [job({ messages })], key), 1)
    return { key, jobId }
  }
  models.script = ({ text }) => (text.includes('refuse') ? reply.refusal('No.') : undefined)
  const accounts: Account[] = []
  const ending = keys.slice(0, ACCOUNTS / 2)
  for (const [index, key] of ending.entries()) {
    const account = await create(key, index % 2 === 0 ? 'answer' : 'refuse')
    await parley.ended(account.jobId, key)
    accounts.push(account)
  }
  models.script = () => reply.stall()
  for (const key of keys.slice(ending.length)) accounts.push(await create(key, 'wait'))
  const states = await Promise.all(accounts.map(({ key, jobId }) => parley.get(`${MESSAGES}/${jobId}`, key)))
  const seen = new Set(states.map(({ body }) => body.data.status))
  assert.deepEqual([...seen].sort(), ['assigned', 'completed', 'failed', 'pending'])
  return accounts
}

/** All of an answer that may tell one reason for it from another. */
function traits({ status, text, headers }: Answer) {
  return { status, text, headers: [...headers].filter(([name]) => !CHANGING.includes(name)) }
}

/** Reads the jobs of all others; returns how many. */
async function readOthers(parley: Parley, accounts: readonly Account[], { key }: Account): Promise<number> {
  const read = (id: string) => parley.get(`${MESSAGES}/${id}`, key)
  const unknown = traits(await read(randomUUID()))
  assert.equal(unknown.status, 404)
  const others = accounts.filter((other) => other.key !== key)
  for (const { jobId } of others) assert.deepEqual(traits(await read(jobId)), unknown)
  return others.length
}

onEachStore(() => {
  test(`${ACCOUNTS * (ACCOUNTS - 1)} reads of another account's job: 404 as for an unknown id`, async (t) => {
    const stage = await startStage(t, { settings: { jobs: { concurrency: CONCURRENCY } } })
    const accounts = await accountsWithJobs(stage)
    const left = accounts.values()
    let pairs = 0
    const work = async () => {
      for (const account of left) {
        const read = await readOthers(stage.parley, accounts, account)
        pairs += read
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    assert.equal(pairs, ACCOUNTS * (ACCOUNTS - 1))
    t.diagnostic(`${pairs} pairs`)
  })

  test('no other route of the callers takes an id', async (t) => {
    const { parley } = await startStage(t)
    const withParameters = (await documentedRoutes(parley)).filter(
      ({ path }) => path.startsWith('/api/') && path.includes('{'),
    )
    assert.deepEqual(
      withParameters.map(({ method, path }) => `${method} ${path}`),
      ['GET /api/v1/messages/{jobId}'],
    )
  })

  test('an Idempotency-Key is the account’s own: another with the same key and body gets its own job', async (t) => {
    const { parley } = await startStage(t)
    const [one, other] = [await parley.key('user_go', 'one'), await parley.key('user_go', 'other')]
    const headers = { 'idempotency-key': 'the-same' }
    const first = await parley.post(MESSAGES, job(), one, headers)
    const second = await parley.post(MESSAGES, job(), other, headers)
    completed(first)
    completed(second)
    assert.notEqual(granted(second, 200).job_id, granted(first, 200).job_id)
  })
})
