/**
 * Tests that every callback arrives at least once, although the server is killed at random moments and the receivers fail in
 * many ways.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { startModelServer } from '../model-server.ts'
import { CALLBACK_SETTINGS, CALLBACKS, JOBS_OF_A_BATCH, KILLS, startCallbackRun } from './callback-run.ts'
import { CrashRun } from './crash-run.ts'
import { installation } from './server-process.ts'

/** Each batch causes two events: its request and its response. */
const EVENTS_OF_A_BATCH = 2

test(`${KILLS} kills of the server and receivers that fail in many ways: all ${CALLBACKS} callbacks arrive`, async (t) => {
  const models = await startModelServer({ keep: false }, t)
  const settings = { jobs: { max_attempts: 1000 }, callbacks: CALLBACK_SETTINGS }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  const callbacks = await startCallbackRun(t)
  const eventsBetween = (CALLBACKS / JOBS_OF_A_BATCH / KILLS) * EVENTS_OF_A_BATCH
  const run = new CrashRun({
    place,
    random: callbacks.random,
    kills: KILLS,
    callers: 2,
    mostEvents: Math.round(2 * eventsBetween),
    ask: async (caller, name) => {
      await callbacks.secretFrom(() => place.parley(['accounts', 'secret', 'default']))
      await callbacks.ask(name, (contents, over) => caller.batch(contents, over))
    },
    onCalm: () => {},
  })
  const { server, key } = await run.run()
  const caller = server.caller(key)
  await callbacks.askUntil(CALLBACKS, (contents, over) => caller.batch(contents, over))
  await callbacks.end(caller, KILLS)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
})
