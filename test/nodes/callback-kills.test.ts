/** Tests that on a Postgres that several nodes share, each callback arrives at least once although nodes are killed. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { startModelServer } from '../model-server.ts'
import {
  CALLBACK_SETTINGS,
  CALLBACKS,
  JOBS_OF_A_BATCH,
  KILLS,
  type SendBatch,
  startCallbackRun,
} from '../process/callback-run.ts'
import { startFleet } from './fleet.ts'

const NODES = 3
const CALLERS = 2

test(`${KILLS} kills among ${NODES} nodes, and receivers at their worst: all of ${CALLBACKS} callbacks arrive`, async (t) => {
  const models = await startModelServer({ keep: false }, t)
  const settings = { callbacks: CALLBACK_SETTINGS }
  const fleet = await startFleet(t, { nodes: NODES, upstream: models.baseUrl, settings })
  const callbacks = await startCallbackRun(t)
  await callbacks.secretFrom(() => fleet.parley(['accounts', 'secret', 'acme']))
  const send: SendBatch = (contents, over) => fleet.ask((caller) => caller.batch(contents, over))

  let over = false
  const asking = Promise.all(
    Array.from({ length: CALLERS }, async (_, index) => {
      for (let asked = 0; !over; asked++) await callbacks.ask(`caller ${index}, request ${asked}`, send)
    }),
  )
  try {
    for (let kill = 0; kill < KILLS; kill++) {
      const batches = callbacks.random.below((2 * CALLBACKS) / JOBS_OF_A_BATCH / KILLS)
      await Promise.race([callbacks.moreBatches(1 + batches), asking])
      // Callers keep using the node until it is gone.
      const victim = fleet.nodes[callbacks.random.below(NODES)]
      assert.ok(victim)
      await victim.crash()
      fleet.remove(victim)
      await fleet.add()
    }
  } finally {
    over = true
  }
  await asking
  await callbacks.askUntil(CALLBACKS, send)
  await callbacks.end(fleet.caller(fleet.nodes[0]), KILLS)
})
