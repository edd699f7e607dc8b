/** Makes what delivers callbacks, with the rules for where they may go. */
import type { Clock } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { type AddressRules, readNetworks } from '../net/address-guard.ts'
import { createPoster } from '../net/post.ts'
import type { CallbackStore } from '../store/callback-store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { Courier } from '../work/courier.ts'

export interface CallbackParts {
  readonly settings: Settings
  readonly store: CallbackStore
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** The list of networks was checked with the configuration. */
export function addressRules({ callbacks }: Settings): AddressRules {
  const read = readNetworks(callbacks.allow_networks)
  return { allow: read.ok ? read.networks : [], httpsOnly: callbacks.https_only }
}

export function createCourier({ settings, store, clock, log, metrics }: CallbackParts): Courier {
  const timeoutMs = settings.callbacks.timeout_seconds * 1000
  return new Courier({
    store,
    poster: createPoster({ rules: addressRules(settings), timeoutMs, clock }),
    clock,
    random: Math.random,
    timeoutMs,
    pausesS: settings.callbacks.retry_seconds,
    onAttempt: ({ view, attempt }, result, next) => {
      metrics.calledBack(next === 'due' ? 'failed' : next)
      const status = result.kind === 'answered' ? result.status : null
      const fields = { job_id: view.id, attempt, status, ms: Math.round(result.ms) }
      if (next === 'delivered') log.debug(fields, 'callback delivered')
      else log.warn(fields, next === 'due' ? 'callback failed; it is tried again' : 'callback given up')
    },
    onTrouble: (error) => log.error(errorFields(error), 'callbacks are held up; they are tried again'),
  })
}
