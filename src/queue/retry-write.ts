/**
 * Writes what must not be lost: an outcome that has been paid for, the record of a callback that was sent. A database that
 * cannot take it now is tried until it can.
 */
import type { Clock } from '../clock.ts'
import { WriteRejected } from '../store/store.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/**
 * Rejects with `WriteRejected` only: trying that again cannot help. Any other error may pass, and to run the job or to send
 * the callback again would cost more than to write again.
 * @param onTrouble told each time that the database refused
 * @param goOn asked before each further try; a process that is ending stops trying
 */
export async function retryWrite<T>(
  write: () => Promise<T>,
  clock: Clock,
  onTrouble: (error: unknown) => void,
  goOn: () => boolean,
): Promise<T | 'given up'> {
  let pauseMs = FIRST_PAUSE_MS
  for (;;) {
    try {
      return await write()
    } catch (error) {
      if (error instanceof WriteRejected) throw error
      onTrouble(error)
    }
    if (!goOn()) return 'given up'
    await new Promise<void>((resolve) => {
      clock.after(pauseMs, resolve)
    })
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
  }
}
