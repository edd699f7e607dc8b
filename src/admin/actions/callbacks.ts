/** Admin actions on callbacks. */
import type { Replay } from '../../store/callback-store.ts'
import type { Expiry } from '../../store/expiry.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import type { AdminAction } from '../admin-action.ts'

/** Callbacks replayed in one transaction. It is small so that other writes do not wait for long. */
const CALLBACKS_PER_STEP = 500

export function replayCallbackAction(
  store: OperatorStore,
  jobId: string,
  expiry: Expiry,
): AdminAction<Replay> {
  return {
    what: 'replay a callback',
    target: jobId,
    account: { ofJob: jobId },
    run: () => store.replayCallback(jobId, expiry),
    describe: (replay) => {
      if (replay === 'unknown') return 'refused: there is no such callback'
      return replay === 'in progress' ? 'refused: it was being sent just then' : 'due again'
    },
  }
}

/**
 * Replays the callbacks that have failed by now, so one that fails again meanwhile is not replayed twice. The result is their
 * number.
 */
export function replayFailedCallbacksAction(
  store: OperatorStore,
  account: string | undefined,
  expiry: Expiry,
): AdminAction<number> {
  const search = { limit: CALLBACKS_PER_STEP, ...(account !== undefined && { account }) }
  return {
    what: 'replay failed callbacks',
    ...(account !== undefined && { account }),
    run: async () => {
      let replayed = 0
      for (let step = CALLBACKS_PER_STEP; step === CALLBACKS_PER_STEP; replayed += step) {
        step = await store.replayFailedCallbacks(search, expiry)
      }
      return replayed
    },
    describe: (callbacks) => `${callbacks} due again`,
  }
}
