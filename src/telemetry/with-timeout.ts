/** Asks something that may fail or hang, for one who cannot wait: a scrape is given up after some seconds. */
import type { Clock } from '../clock.ts'

/** Below the 10 s after which Prometheus gives a scrape up. */
export const TIMEOUT_MS = 5000

/**
 * Resolves with null where `ask` fails, or takes longer than PROMPT_MS. Who asks while an answer is on its way waits for
 * that one, so that one scrape asks once, and what hangs is not asked again and again.
 */
export function withTimeout<Found>(clock: Clock, ask: () => Promise<Found>): () => Promise<Found | null> {
  let underWay: Promise<Found | null> | null = null
  return () => {
    underWay ??= ask()
      .catch(() => null)
      .finally(() => {
        underWay = null
      })
    const answer = underWay
    return new Promise((resolve) => {
      const cancel = clock.after(TIMEOUT_MS, () => resolve(null))
      void answer.then((found) => {
        cancel()
        resolve(found)
      })
    })
  }
}
