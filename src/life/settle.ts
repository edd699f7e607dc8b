/**
 * Writes a run's outcome, once and for ever. A database that cannot take it now is tried until it can: the answer has
 * been paid for, and the job stays this node's meanwhile.
 */
import type { Clock } from '../clock.ts'
import { type Settled, type Settlement, type Store, StoreUnavailable } from '../store/store.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/**
 * @param onTrouble told each time that the database refused
 * @param goOn asked before each further try; a process that is ending stops trying, and the job runs again later
 */
export async function settleJob(
  store: Pick<Store, 'settle'>,
  settlement: Settlement,
  clock: Clock,
  onTrouble: (error: StoreUnavailable) => void,
  goOn: () => boolean,
): Promise<Settled | 'given up'> {
  let pauseMs = FIRST_PAUSE_MS
  for (;;) {
    try {
      return await store.settle(settlement)
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
      onTrouble(error)
    }
    if (!goOn()) return 'given up'
    await new Promise<void>((resolve) => {
      clock.after(pauseMs, resolve)
    })
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
  }
}
