/** Creates the callback dispatcher and its HTTP client from the settings. */
import { CallbackDispatcher, type CallbackDispatcherOptions } from '../callbacks/dispatcher.ts'
import { type Clock, wholeMs } from '../clock.ts'
import { addressRulesOf } from '../config/conversions.ts'
import type { Configuration } from '../config/load.ts'
import type { Settings } from '../config/settings.ts'
import { SIMULATED_HEADER } from '../http/parley-headers.ts'
import { createPoster, type Poster } from '../net/post.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { isTracing, tracedPoster } from '../telemetry/traces.ts'

export interface CallbackParts
  extends Pick<CallbackDispatcherOptions, 'node' | 'store' | 'clock' | 'bytes' | 'poster' | 'random'> {
  readonly settings: Settings
  readonly log: Log
  readonly metrics: Metrics
}

export function createCallbackPoster(
  { settings, simulated }: Pick<Configuration, 'settings' | 'simulated'>,
  clock: Clock,
): Poster {
  const { concurrency, retry_concurrency, concurrency_per_origin, timeout_seconds } = settings.callbacks
  const untraced = createPoster({
    rules: addressRulesOf(settings),
    timeoutMs: wholeMs(timeout_seconds),
    idle: { total: concurrency + retry_concurrency, perOrigin: concurrency_per_origin },
    clock,
  })
  const poster = isTracing() ? tracedPoster(untraced) : untraced
  if (!simulated) return poster
  return {
    post: ({ headers, ...request }) => poster.post({ ...request, headers: markedSimulated(headers) }),
    close: () => poster.close(),
  }
}

/** Adds the header that marks answers of the simulator. Replaces one that the caller configured. */
function markedSimulated(headers: Readonly<Record<string, string>>): Record<string, string> {
  const others = Object.entries(headers).filter(([name]) => name.toLowerCase() !== SIMULATED_HEADER)
  return { ...Object.fromEntries(others), [SIMULATED_HEADER]: 'true' }
}

export function createDispatcher({
  settings,
  store,
  node,
  clock,
  log,
  metrics,
  bytes,
  poster,
  random,
}: CallbackParts): CallbackDispatcher {
  const { concurrency, retry_concurrency, concurrency_per_origin, ...callbacks } = settings.callbacks
  const timeoutMs = wholeMs(callbacks.timeout_seconds)
  return new CallbackDispatcher({
    store,
    node,
    poster,
    clock,
    random,
    timeoutMs,
    pausesS: callbacks.retry_seconds,
    slots: { first: concurrency, retry: retry_concurrency },
    slotsPerOrigin: concurrency_per_origin,
    bytes,
    onAttempt: ({ jobId, account }, attempt, next) => {
      metrics.calledBack(attempt, next)
      const { status, ms } = attempt
      const fields = { job_id: jobId, account, attempt: attempt.attempt, status, ms }
      if (next === 'delivered') log.debug(fields, 'callback delivered')
      else if (next === 'due') log.warn(fields, 'callback failed; retrying later')
      else log.warn(fields, 'callback failed permanently')
    },
    onError: (error) => log.error(errorFields(error), 'an error delays callbacks; retrying'),
  })
}
