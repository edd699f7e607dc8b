/** Creates the router and its model servers: a client for each upstream, or the simulator instead of all. */
import type { Clock } from '../clock.ts'
import { tiersOf } from '../config/conversions.ts'
import type { Configuration } from '../config/load.ts'
import type { Settings } from '../config/settings.ts'
import type { CurrentPrices } from '../queue/current-prices.ts'
import type { Log } from '../telemetry/log.ts'
import type { CallEvent } from '../upstreams/call-target.ts'
import { START_CONCURRENCY } from '../upstreams/concurrency-limit.ts'
import type { ModelServer } from '../upstreams/model-server.ts'
import { OpenAiClient, type ReadLarge } from '../upstreams/openai-client.ts'
import type { RateBook } from '../upstreams/rate.ts'
import { ModelRouter } from '../upstreams/router.ts'
import { Simulator } from '../upstreams/simulator.ts'
import { jobSlots, maxConcurrency } from './slots.ts'

export interface RouterParts {
  readonly configuration: Pick<Configuration, 'settings' | 'concurrency' | 'simulated'>
  readonly clock: Clock
  /** Returns a number from 0 up to but not including 1. */
  readonly random: () => number
  /** Creates the client of an upstream, by its name. */
  readonly serverOf: (name: string) => ModelServer
  readonly onCall: (call: CallEvent) => void
  /** Null if no model has a price. */
  readonly prices: CurrentPrices | null
  /** Returns the book of a rate, by the name of its upstream or target. */
  readonly bookOf: (name: string) => RateBook
  readonly log: Log
}

/**
 * Returns a function that creates the client of an upstream, or the simulator instead.
 * @param traceparent returns the `traceparent` header of a call; absent without telemetry
 */
export function modelServers(
  { settings, access, simulated }: Configuration,
  clock: Clock,
  readLarge: ReadLarge,
  traceparent?: () => string | null,
): RouterParts['serverOf'] {
  return (name) => {
    const upstream = settings.upstreams[name]
    if (simulated || upstream === undefined) return new Simulator(clock, name)
    const readsRates = isRated(name, settings)
    const common = {
      name,
      settings: upstream,
      apiKey: null,
      ...access.get(name),
      clock,
      readLarge,
      readsRates,
    }
    return new OpenAiClient({ ...common, ...(traceparent && { traceparent }) })
  }
}

/** Whether the upstream, or one of its targets, has a rate. */
function isRated(name: string, { upstreams, models }: Settings): boolean {
  const targets = Object.values(models).flatMap(({ targets: entries = [] }) => entries)
  const limited = [upstreams[name], ...targets.filter(({ upstream }) => upstream === name)]
  return limited.some((one) => (one?.requests_per_minute ?? one?.tokens_per_minute ?? null) !== null)
}

export function createRouter({
  configuration,
  clock,
  random,
  serverOf,
  onCall,
  prices,
  bookOf,
  log,
}: RouterParts): ModelRouter {
  const { settings, concurrency, simulated } = configuration
  const startOf = (name: string, ceiling: number): number | null => {
    const known = simulated ? 'fixed' : concurrency.get(name)
    if (known === 'fixed') return null
    return known === 'explicit' ? ceiling : START_CONCURRENCY
  }
  const upstreams = Object.entries(settings.upstreams).map(([name, upstream]) => {
    const ceiling = maxConcurrency(upstream, settings)
    const startConcurrency = startOf(name, ceiling)
    const server = serverOf(name)
    return [name, { server, maxConcurrency: ceiling, startConcurrency, rate: upstream }] as const
  })
  return new ModelRouter({
    upstreams: new Map(upstreams),
    models: settings.models,
    tiers: tiersOf(settings),
    clock,
    random,
    slots: jobSlots(settings),
    isPatient: settings.jobs.patience_seconds > 0,
    onCall,
    bookOf,
    ...(prices && {
      costOf: (model, target, tokens) => prices()?.costOf(model, target, tokens) ?? null,
    }),
    onAvailability: ({ name: target }, trouble) => {
      if (trouble === null) log.info({ target }, 'a model server responds again')
      else {
        const { kind: reason, status: upstream_status } = trouble
        const message =
          reason === 'misconfigured'
            ? 'a model server rejects the configuration (key, quota, path or model)'
            : 'a model server is unavailable'
        log.warn({ target, reason, upstream_status }, message)
      }
    },
    onFailedCall: ({ jobId, upstream, model, status, code, connection, timedOut, ms, broke }) =>
      log.warn(
        {
          job_id: jobId,
          upstream,
          upstream_model: model,
          upstream_status: status,
          code: timedOut ? 'timeout' : code,
          connection,
          ms: Math.round(ms),
          ...(broke && {
            schema: broke.schema,
            calls_in_progress: broke.in_progress,
            counts_against_job: broke.counts,
          }),
        },
        'call failed',
      ),
  })
}
