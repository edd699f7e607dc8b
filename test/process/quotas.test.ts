/**
 * Tests an account that creates jobs in a loop: its quota stops it, other accounts are not affected, and accepted jobs finish.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { freshDatabase } from '../postgres/database.ts'
import { type Caller, idsOf, type Reply } from './caller.ts'
import { type Installation, installation } from './server-process.ts'

/** The quota of the tier user_free. */
const MAX_OPEN_JOBS = 1000
const BATCH = 2
const CONCURRENCY = 20
const timeout = 180_000

async function place(t: TestContext, options: object) {
  const models = await startModelServer()
  models.script = () => reply.stall()
  t.after(() => models.close())
  const at = await installation(t, { upstream: models.baseUrl, ...options })
  return { at, models }
}

async function keyOf(at: Installation, account: string, tier: string): Promise<string> {
  const made = await at.parley(['keys', 'create', '--account', account, '--tier', tier, '--json'])
  return JSON.parse(made.stdout).key
}

/** Creates jobs until a request is rejected, or until there are far too many jobs. */
async function createUntilRefused(caller: Caller) {
  const ids: string[] = []
  let refusal: Reply | null = null
  const loop = async () => {
    while (refusal === null && ids.length < MAX_OPEN_JOBS * 1.2) {
      const created = await caller.batch(Array.from({ length: BATCH }, () => 'More!'))
      if (created.status === 202) ids.push(...idsOf(created))
      else refusal ??= created
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, loop))
  return { ids, refusal: refusal as Reply | null }
}

for (const [store, databaseUrl] of [
  ['SQLite', () => undefined],
  ['Postgres', freshDatabase],
] as const) {
  test(`creates in a loop until refused, on ${store}`, { timeout }, async (t) => {
    const url = await databaseUrl(t)
    const { at, models } = await place(t, { ...(url !== undefined && { databaseUrl: url }) })
    const server = await at.start()
    const greedy = server.caller(await keyOf(at, 'greedy', 'user_free'))
    const other = server.caller(await keyOf(at, 'other', 'user_free'))
    const { ids, refusal } = await createUntilRefused(greedy)
    assert.ok(refusal, `${ids.length} jobs were accepted, and none was refused`)
    assert.equal(refusal.status, 403, refusal.text)
    assert.match(
      refusal.body.message,
      /^Quota reached: tier user_free allows 1000 open jobs, account greedy has 1000, and this request would add 2\.$/,
    )
    assert.equal(ids.length, MAX_OPEN_JOBS)
    const accepted = await other.batch(['Mine'])
    assert.equal(accepted.status, 202, accepted.text)

    // The new quota is below the number of open jobs. All of these must still finish.
    const cap = ['accounts', 'cap', 'greedy', '--open-jobs', '5', '--stored-bytes', '1', '--json']
    assert.equal(JSON.parse((await at.parley(cap)).stdout).max_open_jobs, 5)
    models.script = () => undefined
    models.release()
    const [mine = ''] = idsOf(accepted)
    assert.equal((await other.ended(mine)).body.data?.status, 'completed')
    await server.stop()
    const again = await at.start()
    const callerAgain = again.caller(await keyOf(at, 'greedy', 'user_free'))
    const listed = JSON.parse((await at.parley(['accounts', 'list', '--json'])).stdout)
    const { open_jobs } = listed.find(({ name }: { name: string }) => name === 'greedy')
    assert.ok(open_jobs <= MAX_OPEN_JOBS)
    for (const id of [ids[0], ids[500], ids.at(-1)]) {
      const ended = await again.caller(await keyOf(at, 'greedy', 'user_free')).ended(id ?? '')
      assert.equal(ended.body.data?.status, 'completed')
    }
    const last = await callerAgain.batch(['One more'])
    assert.equal(last.status, 403, 'what is stored is over the new quota')
    assert.match(last.body.message, /account greedy allows (5 open jobs|1 stored bytes)/)
  })
}
