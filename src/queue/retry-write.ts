/** Retries a write that must not be lost, such as an outcome that was paid for or the record of a sent callback. */
import { type Clock, wait } from '../clock.ts'
import { WriteRejected } from '../store/store.ts'

const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 5000

/**
 * Rejects only with `WriteRejected`. Any other error may be temporary, and a retry costs less than executing the job or sending
 * the callback again.
 * @param onError receives the error of each failed try
 * @param mayRetry returns false if the write must not be tried again, for example because the process is stopping
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
