/** Waiting for a count, in a run that ends by it. */
import type { Child } from './child.ts'
import { hold } from './gates.ts'

const LOOK_MS = 20

/**
 * Fails when the process that it depends on has ended, or it takes too long.
 * @param what is counted, such as `jobs`
 */
export async function reaches(
  count: () => Promise<number>,
  goal: number,
  withinMs: number,
  worker: Child,
  what: string,
): Promise<void> {
  const untilMs = performance.now() + withinMs
  for (let now = await count(); now < goal; now = await count()) {
    const asItShould = performance.now() < untilMs && !worker.hasEnded
    hold(asItShould, `${worker.name} came to ${now} of ${goal} ${what}; it printed:\n${worker.output}`)
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}
