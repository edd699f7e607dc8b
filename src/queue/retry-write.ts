/**
 * Retries a write that must not be lost, such as an outcome that has been paid for or the record of a callback that was
 * sent, until the database takes it.
 */
import { type Clock, wait } from '../clock.ts'
import { WriteRejected } from '../store/store.ts'

const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 5000

/**
 * Rejects with `WriteRejected` only, because to retry that write cannot help. Any other error may pass, and executing the job
 * or sending the callback again would cost more than another write.
 * @param onError called for each try that failed
 * @param mayRetry asked before each retry; a process that is ending stops retrying
 */
export async function retryWrite<T>(
  write: () => Promise<T>,
  clock: Clock,
  onError: (error: unknown) => void,
  mayRetry: () => boolean,
): Promise<T | 'given up'> {
  let pauseMs = FIRST_PAUSE_MS
  for (;;) {
    try {
      return await write()
    } catch (error) {
      if (error instanceof WriteRejected) throw error
      onError(error)
    }
    if (!mayRetry()) return 'given up'
    await wait(clock, pauseMs)
    pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)
  }
}
