/** Tests jobs that together are larger than the heap: only a few run at a time, and jobs of other accounts are not delayed. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { type Received, reply } from '../model-server.ts'
import { type Database, onBothStores } from './both-stores.ts'
import { idsOf } from './caller.ts'
import { startServer } from './started-server.ts'

const HEAP_MIB = 512
const JOBS = 21
/**
 * The text has nearly 10 MB, the limit of a body. One character is outside Latin-1, so that each character takes two bytes of
 * heap.
 */
const LARGE = `${'large '.repeat(1_600_000)}€`

const isLarge = ({ text }: Received) => text.length > 1_000_000

async function runsAll(t: TestContext, database: Database): Promise<void> {
  const tier = { max_input_tokens: 1_000_000_000, reads_per_minute: 1_000_000 }
  const {
    models,
    place,
    server,
    caller: many,
  } = await startServer(t, {
    models: {
      keep: false,
      script: (request) => (isLarge(request) ? reply.stall(reply.text('done')) : undefined),
    },
    settings: { tiers: { user_max: tier, user_pro: tier }, jobs: { drain_seconds: 0.1 } },
    start: { heapMib: HEAP_MIB, env: { LOG_LEVEL: 'warn' } },
    ...database,
  })
  const died = server.exited.then((exit) =>
    assert.fail(`${JSON.stringify(exit)}: ${server.program.stderr.slice(0, 2000)}`),
  )
  died.catch(() => {})
  const other = server.caller(await place.key('other', 'user_pro'))

  const work = async (): Promise<void> => {
    const ids: string[] = []
    while (ids.length < JOBS) ids.push(...idsOf(await many.batch([LARGE])))
    await models.received(1)
    for (const content of ['small', 'x'.repeat(57_000)]) {
      const { body, text } = await other.single(content, { timeout: 60 })
      assert.equal(body.data?.status, 'completed', text)
    }
    t.diagnostic(`${models.running()} of ${JOBS} large jobs at once`)
    models.script = () => reply.text('done')
    models.release()
    for (const id of ids) assert.equal((await many.ended(id)).body.data?.status, 'completed')
  }
  await Promise.race([work(), died])
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
}

onBothStores((store) => `${JOBS} jobs of 10 MB end with a heap of ${HEAP_MIB} MiB (${store})`, runsAll, {
  real: true,
})
