/**
 * Tests an account that creates jobs in a loop: its quota stops it, other accounts are not affected, and accepted jobs finish.
 */
import assert from 'node:assert/strict'
import { reply, startModelServer } from '../model-server.ts'
import { onBothStores } from './both-stores.ts'
import { type Caller, idsOf, type Reply } from './caller.ts'
import { installation } from './server-process.ts'

const MAX_OPEN_JOBS = 200
const BATCH = 2
const CONCURRENCY = 20
/** Stops even without a rejection once there are far too many jobs, so that a missing quota fails the test. */
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

onBothStores(
  (store) => `creates in a loop until refused, on ${store}`,
  async (t, database) => {
    const models = await startModelServer({ script: () => reply.stall() }, t)
    const settings = { tiers: { user_free: { max_open_jobs: MAX_OPEN_JOBS } } }
    const at = await installation(t, { upstream: models.baseUrl, settings, ...database })
    const server = await at.start()
    const key = await at.key('greedy', 'user_free')
    const other = server.caller(await at.key('other', 'user_free'))
    const { ids, refusal } = await createUntilRefused(server.caller(key))
    assert.ok(refusal, `${ids.length} jobs were accepted, and none was refused`)
    assert.equal(refusal.status, 403, refusal.text)
    assert.match(
      refusal.body.message,
      /^Quota reached: tier user_free allows 200 open jobs, account greedy has 200, and this request would add 2\.$/,
    )
    assert.equal(ids.length, MAX_OPEN_JOBS)
    const accepted = await other.batch(['Mine'])
    assert.equal(accepted.status, 202, accepted.text)

    // The new quota is below the number of open jobs. All of these must still finish.
    const capped = ['accounts', 'cap', 'greedy', '--open-jobs', '5', '--stored-bytes', '1']
    assert.equal((await at.json(capped)).max_open_jobs, 5)
    models.script = () => undefined
    models.release()
    const [mine = ''] = idsOf(accepted)
    assert.equal((await other.ended(mine)).body.data?.status, 'completed')
    await server.stop()
    const greedy = (await at.start()).caller(key)
    const listed: { name: string; open_jobs: number }[] = await at.json(['accounts', 'list'])
    assert.ok(Number(listed.find(({ name }) => name === 'greedy')?.open_jobs) <= MAX_OPEN_JOBS)
    for (const id of [ids[0], ids[MAX_OPEN_JOBS / 2], ids.at(-1)]) {
      assert.equal((await greedy.ended(id ?? '')).body.data?.status, 'completed')
    }
    const last = await greedy.batch(['One more'])
    assert.equal(last.status, 403, 'what is stored is over the new quota')
    assert.match(last.body.message, /account greedy allows (5 open jobs|1 stored bytes)/)
  },
)
