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

/** Lets the script decide about calls only: requests for the list of models are answered as usual. */
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
    /** Returns the number of calls so far. */
    calls: () => completions(models),
    /** Creates these jobs, or this many that all differ; returns their IDs. */
    createJobs: (jobs: Jobs, by = caller) =>
      createBatches(scene, by.key, typeof jobs === 'number' ? numbered(jobs) : jobs),
    /** Creates a job, and lets time pass until it has its answer. */
    createAndWait: (body: ReturnType<typeof job>, by = caller): Promise<{ answer: Answer; ms: number }> =>
      createAndWait(t, scene, by.key, body),
    /** Lets time pass until the condition holds; returns the milliseconds. */
    until,
    pass: async (ms: number, stepMs = STEP_MS): Promise<void> => {
      const endMs = clock.nowMs() + ms
      await until(() => clock.nowMs() >= endMs, stepMs)
    },
    /** Lets time pass until all of these jobs have ended. */
    ended: (ids: readonly string[], stepMs?: number, by = caller) =>
      until(allEnded(parley, by.key, ids), stepMs),
    /** Lets time pass until all of these jobs have ended, and checks that they have completed. */
    complete: (ids: readonly string[], by: Caller = caller) => allComplete(scene, t, by.key, ids),
    statuses: (ids: readonly string[], by: Caller = caller) => statuses(parley, by.key, ids),
  }
}
