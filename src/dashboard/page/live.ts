/**
 * Provides current figures from the server: the overview, and a metric sample every two seconds from the event stream. If the
 * stream breaks, it is opened again after a pause that grows with each failure. While the tab is hidden, there is no stream.
 */
import { useEffect, useState } from 'preact/hooks'
import { ApiError, admin, openEvents } from './api.ts'
import type { MetricSample, Overview } from './contract.ts'
import { signOut } from './session.ts'

export type Connection = 'connecting' | 'live' | 'reconnecting'

export interface Live {
  readonly connection: Connection
  readonly overview: Overview | null
  /** Contains the metric samples of the last 15 minutes, oldest first. */
  readonly points: readonly MetricSample[]
  /** The server's clock is ahead of the browser's by this many seconds. */
  readonly clockOffsetSeconds: number
}

const KEPT_SECONDS = 15 * 60
const LONGEST_PAUSE_MS = 15_000
/** The server sends something at least every two seconds. After this silence, the connection counts as broken. */
const SILENCE_MS = 12_000
/** Some figures are only in the overview, so it is read again at this interval. */
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

/** Returns the server's time in Unix seconds. Until the overview is loaded, this is the browser's time. */
export const serverNow = (): number => Date.now() / 1000 + live.clockOffsetSeconds

/** Starts the updates, and returns a function that stops them. */
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
        signOut('The admin token is no longer valid. Sign in again.')
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

/** Settles when the stream ends. */
async function readEvents(signal: AbortSignal, onLife: () => void): Promise<void> {
  const own = new AbortController()
  const either = AbortSignal.any([signal, own.signal])
  let silence = setTimeout(() => own.abort(), SILENCE_MS)
  let isReading = false
  const refresh = setInterval(async () => {
    // With all samples, the overview has a quarter of a megabyte. On a slow connection, reading it may take longer than the
    // interval.
    if (isReading) return
    isReading = true
    await readOverview(either).catch(() => {})
    isReading = false
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

/** Resolves after the time, or as soon as the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** The stream is parsed here, because the browser's EventSource cannot send a token. */
interface ServerEvent {
  /** The name is empty for a comment, which only keeps the connection alive. */
  readonly name: string
  readonly data: string
}

async function* eventsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = stream
    .pipeThrough(new TextDecoderStream() as never)
    .getReader() as ReadableStreamDefaultReader<string>
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (rest + value).replaceAll('\r\n', '\n').split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) yield eventOf(block)
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

function eventOf(block: string): ServerEvent {
  let name = ''
  const data: string[] = []
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim()
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
  }
  return { name: name === '' && data.length > 0 ? 'message' : name, data: data.join('\n') }
}
