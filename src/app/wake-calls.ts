/**
 * Wakes model servers that scale to zero. While jobs wait for a target that does not respond, each node sends a POST to the
 * upstream's `wake_url`: at once, and then every PAUSE_MS.
 */
import { request } from 'undici'
import type { Clock } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { readQueueName } from '../job/priority.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Store } from '../store/store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Routes } from '../upstreams/routes.ts'
import type { UpstreamState } from '../upstreams/routing-table.ts'

const LOOK_MS = 2_000
const PAUSE_MS = 30_000
const TIMEOUT_MS = 10_000

export interface WakeCallOptions {
  readonly settings: Pick<Settings, 'upstreams'>
  readonly upstreams: Pick<Routes, 'limited' | 'limitedAccounts'> & { state(): readonly UpstreamState[] }
  readonly store: Pick<Store, 'queued'>
  readonly clock: Clock
  /** Aborts calls in progress, because a shutdown does not wait for them. */
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
        headersTimeout: TIMEOUT_MS,
        bodyTimeout: TIMEOUT_MS,
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
      ([name]) => away.has(name) && nowMs - (calledMs.get(name) ?? Number.NEGATIVE_INFINITY) >= PAUSE_MS,
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
  return new PollingLoop({ clock, pauseMs: LOOK_MS, task, onError })
}
