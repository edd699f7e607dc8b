/**
 * Simulates open dashboards in a separate process. Each reads the event stream and requests the overview every ten seconds, as
 * the page does.
 */
import { onBenchMessage, sendToBench, settingsFromBench } from './bench-channel.ts'

export interface DashboardSettings {
  readonly port: number
  readonly token: string
}

export type DashboardOrder = { readonly kind: 'open'; readonly count: number } | { readonly kind: 'close' }

const OVERVIEW_EVERY_MS = 10_000

const { port, token } = settingsFromBench<DashboardSettings>()
const headers = { authorization: `Bearer ${token}` }
const api = `http://127.0.0.1:${port}/admin/api`
let open = new AbortController()

async function watch(signal: AbortSignal, index: number): Promise<void> {
  const stream = await fetch(`${api}/events`, { headers, signal })
  if (!stream.ok || !stream.body) throw new Error(`the stream of events answered ${stream.status}`)
  // The stream ends with an error when the signal aborts.
  drain(stream.body).catch(() => {})
  // Real dashboards do not send their requests all at once.
  const first = setTimeout(ask, (OVERVIEW_EVERY_MS * index) / 50)
  const later = setInterval(ask, OVERVIEW_EVERY_MS)
  signal.addEventListener('abort', () => {
    clearTimeout(first)
    clearInterval(later)
  })
  function ask() {
    fetch(`${api}/overview`, { headers, signal })
      .then((answer) => answer.arrayBuffer())
      .catch(() => {})
  }
}

async function drain(body: ReadableStream<Uint8Array>): Promise<void> {
  for await (const _part of body);
}

async function follow(order: DashboardOrder): Promise<void> {
  open.abort()
  open = new AbortController()
  if (order.kind === 'open') {
    const { signal } = open
    await Promise.all(Array.from({ length: order.count }, (_, index) => watch(signal, index)))
  }
  sendToBench({ kind: 'so it is' })
}

onBenchMessage<DashboardOrder>((order) => void follow(order))
sendToBench({ kind: 'ready' })
