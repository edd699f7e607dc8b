/**
 * Tests that an account learns nothing about the jobs of another account, whatever the state of those jobs: a request with
 * their IDs gets the same response as a request with unknown IDs.
 */
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
/** Each account asks for the job of every other account. */
const ACCOUNTS = LONG ? 101 : 6
const AT_ONCE = 20
const CONCURRENCY = 2
/** Names of the headers that differ between any two responses. */
const CHANGING = ['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset']

interface Account {
  readonly key: string
  readonly jobId: string
}

/** Returns accounts with one job each. Together, the jobs are in every state that a job can have. */
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

/** Returns all parts of a response that could tell a caller whether a job of another account exists. */
function traits({ status, text, headers }: Answer) {
  return { status, text, headers: [...headers].filter(([name]) => !CHANGING.includes(name)) }
}

/** All requests that a caller can make about a job, by the job's ID. */
const REQUESTS: readonly ((parley: Parley, id: string, key: string) => Promise<Answer>)[] = [
  (parley, id, key) => parley.get(`${MESSAGES}/${id}`, key),
  (parley, id, key) => parley.get(`${MESSAGES}/${id}?wait=60`, key),
  (parley, id, key) => parley.post(`${MESSAGES}/${id}/cancel`, {}, key),
  (parley, id, key) => parley.request(`${MESSAGES}/${id}?drop_callback=true`, byKey('DELETE', key)),
]

const byKey = (method: string, key: string) => ({ method, headers: { 'x-api-key': key } })

/** Sends each of `REQUESTS` for the jobs of all other accounts; returns the number of requests. */
async function askForOthers(parley: Parley, accounts: readonly Account[], { key }: Account): Promise<number> {
  const others = accounts.filter((other) => other.key !== key)
  for (const send of REQUESTS) {
    const unknown = traits(await send(parley, randomUUID(), key))
    assert.equal(unknown.status, 404)
    for (const { jobId } of others) assert.deepEqual(traits(await send(parley, jobId, key)), unknown)
  }
  const several = async (id: string) => {
    const answer = traits(await parley.get(`${MESSAGES}?ids=${id}&wait=60&wait_for=any`, key))
    return { ...answer, text: answer.text.replaceAll(id, 'ID') }
  }
  const unknown = await several(randomUUID())
  assert.equal(unknown.status, 200)
  for (const { jobId } of others) assert.deepEqual(await several(jobId), unknown)
  return others.length
}

/**
 * Returns what each account reads about its own jobs, one by one and as a list; asserts that the list contains no other jobs.
 */
async function ownStates(parley: Parley, accounts: readonly Account[]): Promise<unknown[]> {
  return Promise.all(
    accounts.map(async ({ key, jobId }) => {
      const { jobs, next } = granted(await parley.get(MESSAGES, key), 200)
      assert.deepEqual([jobs.map(({ job_id }: { job_id: string }) => job_id), next], [[jobId], null])
      return [granted(await parley.get(`${MESSAGES}/${jobId}`, key), 200), jobs]
    }),
  )
}

onEachStore(() => {
  test(`${ACCOUNTS * (ACCOUNTS - 1)} times another account's job, on every route: as for an unknown id`, async (t) => {
    const many = 1_000_000
    const limits = { cancels_per_minute: many, deletes_per_minute: many }
    const stage = await startStage(t, { settings: { jobs: { concurrency: CONCURRENCY }, limits } })
    const accounts = await accountsWithJobs(stage)
    const before = await ownStates(stage.parley, accounts)
    const left = accounts.values()
    let pairs = 0
    const work = async () => {
      for (const account of left) {
        const read = await askForOthers(stage.parley, accounts, account)
        pairs += read
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    assert.equal(pairs, ACCOUNTS * (ACCOUNTS - 1))
    assert.deepEqual(await ownStates(stage.parley, accounts), before)
    t.diagnostic(`${pairs} pairs`)
  })

  test('these are all caller routes with an ID', async (t) => {
    const { parley } = await startStage(t)
    const withParameters = (await documentedRoutes(parley)).filter(
      ({ path }) => path.startsWith('/api/') && path.includes('{'),
    )
    assert.deepEqual(
      withParameters.map(({ method, path }) => `${method} ${path}`),
      [
        'GET /api/v1/messages/{jobId}',
        'DELETE /api/v1/messages/{jobId}',
        'POST /api/v1/messages/{jobId}/cancel',
      ],
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
