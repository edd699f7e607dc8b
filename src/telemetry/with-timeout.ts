/** Bounds how long a scrape waits for something that may fail or hang. */
import type { Clock } from '../clock.ts'
import { singleFlight } from '../lookup-cache.ts'

/** Below the 10 s after which Prometheus abandons a scrape. */
export const TIMEOUT_MS = 5000

/**
 * Resolves with null when `ask` fails or takes longer than TIMEOUT_MS. Concurrent calls share one result, so that each scrape
 * asks once, and something that hangs is not asked repeatedly.
 */
export function withTimeout<Found>(clock: Clock, ask: () => Promise<Found>): () => Promise<Found | null> {
  const answerOf = singleFlight(() => ask().catch(() => null))
  return () =>
    new Promise((resolve) => {
      const cancel = clock.after(TIMEOUT_MS, () => resolve(null))
      void answerOf().then((found) => {
        cancel()
        resolve(found)
      })
    })
}
