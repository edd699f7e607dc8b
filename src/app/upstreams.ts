/**
 * Connects the engine to model servers: creates the router, the clients of upstreams or the simulator, the books that count
 * rates, and the calls that wake servers.
 */
import { request } from 'undici'
import type { Clock } from '../clock.ts'
import { tiersOf } from '../config/conversions.ts'
import type { Configuration } from '../config/load.ts'
import type { Settings } from '../config/settings.ts'
import { readQueueName } from '../job/priority.ts'
import { PollingLoop } from '../polling-loop.ts'
import { type CurrentPrices, knownToAll } from '../queue/current-prices.ts'
import type { NodeStore } from '../store/node-store.ts'
import type { Store } from '../store/store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { CallEvent } from '../upstreams/call-target.ts'
import { START_CONCURRENCY } from '../upstreams/concurrency-limit.ts'
import type { ModelServer } from '../upstreams/model-server.ts'
import { OpenAiClient, type ReadLarge } from '../upstreams/openai-client.ts'
import { ownBook, type RateBook } from '../upstreams/rate.ts'
import { exchange, type Granted, newRateState, type RateState } from '../upstreams/rate-window.ts'
import { ModelRouter } from '../upstreams/router.ts'
import type { Routes } from '../upstreams/routes.ts'
import type { UpstreamState } from '../upstreams/routing-table.ts'
import { Simulator } from '../upstreams/simulator.ts'
import { jobSlots, maxConcurrency } from './slots.ts'

export interface RouterParts {
  readonly configuration: Pick<Configuration, 'settings' | 'concurrency' | 'simulated'>
  readonly clock: Clock
  /** Returns a number from 0 (inclusive) to 1 (exclusive), as `Math.random` does. */
  readonly random: () => number
  /** Returns the client of the upstream with this name. */
  readonly serverOf: (name: string) => ModelServer
  readonly onCall: (call: CallEvent) => void
  /** `prices` is null if no model has a price. */
  readonly prices: CurrentPrices | null
  /** Returns the book that counts the rate of the upstream or target with this name. */
  readonly bookOf: (name: string) => RateBook
  readonly log: Log
}

/** @param traceparent returns the `traceparent` header of a call; absent without telemetry */
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

/** Returns whether the upstream or one of its targets has a rate. */
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

export interface SharedRatesOptions {
  readonly store: Pick<NodeStore, 'shared' | 'isKnownToAll' | 'readRate' | 'writeRate'>
  readonly node: string
  /** The wall clocks of the nodes must nearly agree: a difference of one second changes the rate by two percent. */
  readonly clock: Pick<Clock, 'nowMs' | 'steadyMs'>
  readonly warn: (message: string) => void
}

/** Other nodes may change the row at the same time, so a node tries to write it this many times. */
const MAX_TRIES = 20

/**
 * With SQLite, the only node counts rates in memory. With Postgres, the nodes share a row of the database for each rate, and a
 * node writes the row only if no other node has changed it since it was read.
 */
export function sharedRates(options: SharedRatesOptions): (name: string) => RateBook {
  const { store, clock, warn } = options
  if (!store.shared) return () => ownBook(clock)
  /** After a failed write, no further failure is reported until a write of the same rate succeeds. */
  const failed = new Set<string>()
  // A node of an earlier version ignores rates. While one runs, the others ignore them, too.
  const isOn = knownToAll('rates', RATES_WARNING, options)
  return (name) => ({
    isOn,
    isShared: true,
    exchange: async (limits, ask) => {
      try {
        const granted = await exchangeShared(name, limits, ask, options)
        failed.delete(name)
        return granted
      } catch (error) {
        if (!failed.has(name)) warn(`the rate ${name} cannot be counted, so its jobs wait: ${String(error)}`)
        failed.add(name)
        throw error
      }
    },
  })
}

async function exchangeShared(
  name: string,
  limits: Parameters<RateBook['exchange']>[0],
  ask: Parameters<RateBook['exchange']>[1],
  { store, node, clock }: SharedRatesOptions,
): Promise<Granted> {
  const startMs = clock.steadyMs()
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const stored = await store.readRate(name)
    const nowMs = clock.nowMs()
    // A correction refers to an earlier call. Time spent waiting for the database must not make that call look more recent.
    const waitedMs = clock.steadyMs() - startMs
    const used = ask.used.map(({ agoMs, ...amounts }) => ({ agoMs: agoMs + waitedMs, ...amounts }))
    const state: RateState = stored === null ? newRateState(nowMs) : JSON.parse(stored.stateJson)
    const granted = exchange(state, limits, { node, ...ask, used }, nowMs)
    if (granted.isSame) return granted
    const next = { stateJson: JSON.stringify(state), version: stored?.version ?? 0 }
    if (await store.writeRate(name, next)) return granted
  }
  throw new Error(`Other nodes changed the rate ${name} in each of ${MAX_TRIES} tries.`)
}

const RATES_WARNING =
  'a node of an earlier version is running: until it stops, requests_per_minute and tokens_per_minute have no effect'

/**
 * Wakes model servers that scale to zero: while jobs wait for a target that does not respond, each node sends a POST to the
 * upstream's `wake_url` at once, and then every WAKE_PAUSE_MS.
 */
const WAKE_LOOK_MS = 2_000
const WAKE_PAUSE_MS = 30_000
const WAKE_TIMEOUT_MS = 10_000

export interface WakeCallOptions {
  readonly settings: Pick<Settings, 'upstreams'>
  readonly upstreams: Pick<Routes, 'limited' | 'limitedAccounts'> & { state(): readonly UpstreamState[] }
  readonly store: Pick<Store, 'queued'>
  readonly clock: Clock
  /** Aborts when the server shuts down, which does not wait for these calls. */
  readonly signal: AbortSignal
  readonly log: Log
}

/** Returns null if no upstream has a `wake_url`. */
export function createWakeCalls({
  settings,
  upstreams,
  store,
  clock,
  signal,
  log,
}: WakeCallOptions): PollingLoop | null {
  const urls = Object.entries(settings.upstreams).flatMap(([name, { wake_url: url }]) =>
    url === null ? [] : ([[name, url]] as const),
  )
  if (urls.length === 0) return null
  const calledMs = new Map<string, number>()
  const isHeld = (route: string) => upstreams.limited.has(route) || upstreams.limitedAccounts.has(route)
  const wake = async (upstream: string, url: string): Promise<void> => {
    try {
      const { statusCode, body } = await request(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'user-agent': 'parley' },
        body: JSON.stringify({ upstream }),
        headersTimeout: WAKE_TIMEOUT_MS,
        bodyTimeout: WAKE_TIMEOUT_MS,
        reset: true,
        signal,
      })
      await body.dump()
      if (statusCode < 300)
        log.info({ upstream }, 'called wake_url: jobs wait for a model server that does not respond')
      else log.warn({ upstream, status: statusCode }, 'wake_url did not respond with success; retrying')
    } catch (error) {
      if (!signal.aborted) log.warn({ upstream, ...errorFields(error) }, 'could not call wake_url; retrying')
    }
  }
  const task = async (): Promise<void> => {
    const isAway = ({ targets }: UpstreamState) => targets.some(({ unavailable }) => unavailable !== null)
    const away = new Set(upstreams.state().flatMap((one) => (isAway(one) ? one.name : [])))
    const nowMs = clock.steadyMs()
    const mayCall = urls.filter(
      ([name]) => away.has(name) && nowMs - (calledMs.get(name) ?? Number.NEGATIVE_INFINITY) >= WAKE_PAUSE_MS,
    )
    if (mayCall.length === 0) return
    const { routes } = await store.queued()
    const awaited = routes.map((queue) => readQueueName(queue).route).filter(isHeld)
    const due = mayCall.filter(([name]) => awaited.some((route) => ` ${route}`.includes(` ${name}/`)))
    for (const [name] of due) calledMs.set(name, nowMs)
    await Promise.all(due.map(([name, url]) => wake(name, url)))
  }
  const onError = (error: unknown) =>
    log.error(errorFields(error), 'could not look for model servers to wake')
  return new PollingLoop({ clock, pauseMs: WAKE_LOOK_MS, task, onError })
}
