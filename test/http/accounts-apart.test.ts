/**
 * Tests that an account learns nothing about the jobs of another account, whatever their state: a request with their IDs gets
 * the same response as a request with unknown IDs.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import type { Answer } from '../parley.ts'
import { LONG } from '../support/long-form.ts'
import { type Caller, callerOf, idsOf, MESSAGES, says } from './caller.ts'
import { granted } from './expect.ts'
import { documentedRoutes } from './openapi/document.ts'
import { type Stage, startStage } from './stage.ts'

const ACCOUNTS = LONG ? 101 : 6
const AT_ONCE = 20
const CONCURRENCY = 2
/** These headers differ between any two responses. */
const CHANGING = ['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset']

interface Account {
  readonly caller: Caller
  readonly jobId: string
}

/** Each account has one job. Together, the jobs are in every state that a job can have. */
async function accountsWithJobs({ parley, models }: Stage): Promise<Account[]> {
  const callers = await Promise.all(
    Array.from({ length: ACCOUNTS }, (_, index) => callerOf(parley, 'user_pro', `account-${index}`)),
  )
  models.script = ({ text }) => (text.includes('refuse') ? reply.refusal('No.') : undefined)
  const accounts: Account[] = []
  for (const [index, caller] of callers.entries()) {
    const isEnding = index < Math.floor(ACCOUNTS / 2)
    if (!isEnding) models.script = () => reply.stall()
    const [jobId = ''] = await caller.enqueue([says(index % 2 === 0 ? 'answer' : 'refuse')])
    if (isEnding) await caller.ended(jobId)
    accounts.push({ caller, jobId })
  }
  const states = await Promise.all(accounts.map(({ caller, jobId }) => caller.read(jobId)))
  const seen = new Set(states.map(({ body }) => body.data.status))
  assert.deepEqual([...seen].sort(), ['assigned', 'completed', 'failed', 'pending'])
  return accounts
}

/** Returns all parts of a response that could tell a caller whether a job of another account exists. */
function traits({ status, text, headers }: Answer) {
  return { status, text, headers: [...headers].filter(([name]) => !CHANGING.includes(name)) }
}

const REQUESTS: readonly ((caller: Caller, id: string) => Promise<Answer>)[] = [
  (caller, id) => caller.read(id),
  (caller, id) => caller.read(id, '?wait=60'),
  (caller, id) => caller.post(`${MESSAGES}/${id}/cancel`, {}),
  (caller, id) => caller.remove(id, '?drop_callback=true'),
]

async function askForOthers(accounts: readonly Account[], { caller }: Account): Promise<number> {
  const others = accounts.filter((other) => other.caller !== caller)
  for (const send of REQUESTS) {
    const unknown = traits(await send(caller, randomUUID()))
    assert.equal(unknown.status, 404)
    for (const { jobId } of others) assert.deepEqual(traits(await send(caller, jobId)), unknown)
  }
  const several = async (id: string) => {
    const answer = traits(await caller.get(`${MESSAGES}?ids=${id}&wait=60&wait_for=any`))
    return { ...answer, text: answer.text.replaceAll(id, 'ID') }
  }
  const unknown = await several(randomUUID())
  assert.equal(unknown.status, 200)
  for (const { jobId } of others) assert.deepEqual(await several(jobId), unknown)
  return others.length
}

/** Asserts that each list contains no other account's jobs. Returns what each account reads about its own jobs. */
async function ownStates(accounts: readonly Account[]): Promise<unknown[]> {
  return Promise.all(
    accounts.map(async ({ caller, jobId }) => {
      const list = granted(await caller.get(MESSAGES), 200)
      assert.deepEqual([idsOf(list), list.next], [[jobId], null])
      return [granted(await caller.read(jobId), 200), list.jobs]
    }),
  )
}

onEachStore(() => {
  test(`${ACCOUNTS * (ACCOUNTS - 1)} times another account's job, on every route: as for an unknown id`, async (t) => {
    const many = 1_000_000
    const limits = { cancels_per_minute: many, deletes_per_minute: many }
    const stage = await startStage(t, { settings: { jobs: { concurrency: CONCURRENCY }, limits } })
    const accounts = await accountsWithJobs(stage)
    const before = await ownStates(accounts)
    const left = accounts.values()
    let pairs = 0
    const work = async () => {
      for (const account of left) {
        const read = await askForOthers(accounts, account)
        pairs += read
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    assert.equal(pairs, ACCOUNTS * (ACCOUNTS - 1))
    assert.deepEqual(await ownStates(accounts), before)
    t.diagnostic(`${pairs} pairs`)
  })

  test('these are all caller routes with an ID', async (t) => {
    const { parley } = await startStage(t)
    const routes = await documentedRoutes(parley)
    const names = routes.map(({ name }) => name).filter((name) => /^\w+ \/api\/.*\{/.test(name))
    assert.deepEqual(names, [
      'GET /api/v1/messages/{jobId}',
      'DELETE /api/v1/messages/{jobId}',
      'POST /api/v1/messages/{jobId}/cancel',
    ])
  })
})
