/** Starts a scene for tests of outages, whose time passes in steps until a condition holds. */
import type { TestContext } from 'node:test'
import { isModelList, type Script } from '../model-server.ts'
import type { Answer, job } from '../parley.ts'
import {
  allComplete,
  allEnded,
  completions,
  createAndWait,
  createBatches,
  numbered,
  STEP_MS,
  statuses,
  untilTrue,
} from '../support/outage.ts'
import { type Caller, type SceneOptions, startScene } from './caller.ts'

type Jobs = number | readonly ReturnType<typeof job>[]

/** The script decides about calls only. Requests for the list of models are answered as usual. */
export const onCalls =
  (script: Script): Script =>
  (request, index) =>
    isModelList(request) ? undefined : script(request, index)

export async function startOutageScene(t: TestContext, options: SceneOptions = {}) {
  const scene = await startScene(t, options)
  const { parley, models, clock, caller } = scene
  const until = (condition: () => boolean | Promise<boolean>, stepMs = STEP_MS): Promise<number> =>
    untilTrue(t, scene, condition, stepMs)
  return {
    ...scene,
    calls: () => completions(models),
    createJobs: (jobs: Jobs, by = caller) =>
      createBatches(scene, by.key, typeof jobs === 'number' ? numbered(jobs) : jobs),
    createAndWait: (body: ReturnType<typeof job>, by = caller): Promise<{ answer: Answer; ms: number }> =>
      createAndWait(t, scene, by.key, body),
    until,
    pass: async (ms: number, stepMs = STEP_MS): Promise<void> => {
      const endMs = clock.nowMs() + ms
      await until(() => clock.nowMs() >= endMs, stepMs)
    },
    ended: (ids: readonly string[], stepMs?: number, by = caller) =>
      until(allEnded(parley, by.key, ids), stepMs),
    complete: (ids: readonly string[], by: Caller = caller) => allComplete(scene, t, by.key, ids),
    statuses: (ids: readonly string[], by: Caller = caller) => statuses(parley, by.key, ids),
  }
}
