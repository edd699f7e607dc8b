/**
 * The server's figures as they come: the overview once, then a point every two seconds by the stream of events. A broken
 * stream is opened again, after a pause that grows; while the tab is hidden there is none.
 */
import { useEffect, useState } from 'preact/hooks'
import { ApiError, admin, openEvents } from './api.ts'
import type { MetricSample, Overview } from './contract.ts'
import { eventsOf } from './event-stream.ts'
import { signOut } from './session.ts'

export type Connection = 'connecting' | 'live' | 'reconnecting'

export interface Live {
  readonly connection: Connection
  readonly overview: Overview | null
  /** Of the last 15 minutes, oldest first. */
  readonly points: readonly MetricSample[]
  /** When the overview's figures are from, by this machine's clock, to tell how old the server's times are. */
  readonly clockOffsetSeconds: number
}

const KEPT_SECONDS = 15 * 60
const LONGEST_PAUSE_MS = 15_000
/** The stream says something at least every two seconds; silence for so long is a broken line. */
const SILENCE_MS = 12_000
/** How old the figures that only the overview has may grow. */
const OVERVIEW_EVERY_MS = 10_000

const NOTHING: Live = { connection: 'connecting', overview: null, points: [], clockOffsetSeconds: 0 }
let live: Live = NOTHING
let current: AbortController | null = null
const listeners = new Set<() => void>()

export function useLive(): Live {
  const [state, setState] = useState(live)
  useEffect(() => {
    const update = () => setState(live)
    listeners.add(update)
    update()
    return () => void listeners.delete(update)
  }, [])
  return state
}

/** The server's time now, in seconds, however wrong the clock here is. */
export const serverNow = (): number => Date.now() / 1000 + live.clockOffsetSeconds

/** @returns ends it */
export function beginLive(): () => void {
  const onVisibility = () => {
    if (document.hidden) stop()
    else start()
  }
  document.addEventListener('visibilitychange', onVisibility)
  onVisibility()
  return () => {
    document.removeEventListener('visibilitychange', onVisibility)
    stop()
    live = NOTHING
  }
}

function start(): void {
  if (current) return
  current = new AbortController()
  void follow(current.signal)
}

function stop(): void {
  current?.abort()
  current = null
}

async function follow(signal: AbortSignal): Promise<void> {
  let pauseMs = 500
  while (!signal.aborted) {
    try {
      await readOverview(signal)
      await readEvents(signal, () => {
        pauseMs = 500
      })
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ApiError && error.status === 401) {
        signOut('The admin token is not accepted any more. Sign in again.')
        return
      }
    }
    if (signal.aborted) return
    set({ connection: 'reconnecting' })
    await pause(pauseMs, signal)
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
  }
}

async function readOverview(signal: AbortSignal): Promise<void> {
  const overview = await admin<Overview>('/overview', { signal })
  set({
    overview,
    points: overview.points,
    clockOffsetSeconds: overview.now - Date.now() / 1000,
  })
}

/** Resolves or rejects when the stream ends. */
async function readEvents(signal: AbortSignal, onLife: () => void): Promise<void> {
  const own = new AbortController()
  const either = AbortSignal.any([signal, own.signal])
  let silence = setTimeout(() => own.abort(), SILENCE_MS)
  const refresh = setInterval(() => {
    readOverview(either).catch(() => {})
  }, OVERVIEW_EVERY_MS)
  try {
    const stream = await openEvents(either)
    set({ connection: 'live' })
    for await (const event of eventsOf(stream)) {
      clearTimeout(silence)
      silence = setTimeout(() => own.abort(), SILENCE_MS)
      onLife()
      if (event.name === 'point') add(JSON.parse(event.data) as MetricSample)
    }
  } finally {
    clearTimeout(silence)
    clearInterval(refresh)
  }
}

function add(point: MetricSample): void {
  const since = point.at - KEPT_SECONDS
  set({ points: [...live.points.filter(({ at }) => at > since && at < point.at), point] })
}

function set(change: Partial<Live>): void {
  live = { ...live, ...change }
  for (const listener of listeners) listener()
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
