/** Waits until a count reaches its goal, which ends a run. */
import type { Child } from './child.ts'
import { assertThat } from './invariants.ts'

const LOOK_MS = 20

/**
 * Throws if the process that must reach the goal ends, or if it takes too long.
 * @param what is counted, such as `jobs`
 */
export async function waitForCount(
  count: () => Promise<number>,
  goal: number,
  withinMs: number,
  worker: Child,
  what: string,
): Promise<void> {
  const untilMs = performance.now() + withinMs
  for (let now = await count(); now < goal; now = await count()) {
    const asItShould = performance.now() < untilMs && !worker.hasEnded
    assertThat(asItShould, `${worker.name} came to ${now} of ${goal} ${what}; it printed:\n${worker.output}`)
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}
