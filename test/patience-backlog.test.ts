/**
 * Tests a long outage in the middle of a backlog, which takes hours in the long form. Runs on SQLite only, because simulating
 * hours takes long.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startStage } from './http/stage.ts'
import { isModelList, reply } from './model-server.ts'
import { Slots } from './model-servers/slots.ts'
import { LONG } from './support/long-form.ts'
import {
  allComplete,
  completions,
  createJobs,
  LONG_STEP_MS,
  ONE_SLOT,
  running,
  statuses,
  untilTrue,
} from './support/outage.ts'

const JOBS = LONG ? 60 : 12

test(`a backlog of ${2 * JOBS} min at one slot completes, with an outage of 50 min in the middle`, async (t) => {
  const stage = await startStage(t, { settings: ONE_SLOT, findsConcurrency: true })
  const { parley, models, clock } = stage
  const key = await parley.key()
  const slots = new Slots({ answerMs: 120_000, clock })
  models.script = (request) => (isModelList(request) ? undefined : slots.hold(reply.echo()))
  const ids = await createJobs(parley, key, JOBS)
  await untilTrue(t, stage, () => completions(models) === JOBS / 3, LONG_STEP_MS)
  await models.kill()
  const untilMs = clock.nowMs() + 50 * 60_000
  await untilTrue(t, stage, () => clock.nowMs() >= untilMs, LONG_STEP_MS)
  assert.equal(await running(parley), 0)
  await models.start()
  const end = async () => (await statuses(parley, key, ids.slice(-1))).completed === 1
  await untilTrue(t, stage, end, LONG_STEP_MS)
  await allComplete(stage, t, key, ids)
})
