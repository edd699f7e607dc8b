/**
 * Receives callbacks in a separate process on many hosts. A host answers with 200 after a delay, or never if it is a black
 * hole. Counts how often each callback arrives, by its `webhook-id`, and its latency since the payload's `sent_ms`. Works
 * directly on sockets, because it shares the machine with what it measures.
 */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { onBenchMessage, sendToBench, settingsFromBench } from './bench-channel.ts'
import { monotonicMs } from './monotonic.ts'
import { type Latencies, summarise } from './percentiles.ts'
import { addressOf, blackHoles, HOSTS } from './receiver-hosts.ts'

interface Settings {
  readonly delayMs: number
}

export type ReceiversOrder =
  /** Resets the counts. Latencies include only callbacks sent after `measureFromMs`. */
  | { readonly kind: 'expect'; readonly holes: number; readonly measureFromMs: number }
  | { readonly kind: 'report?' }

export interface ReceiversReport {
  readonly kind: 'report'
  /** Counts at hosts that answer. `callbacks` counts a repeated callback once, `arrivals` each time. */
  readonly callbacks: number
  readonly arrivals: number
  /** Repeated callbacks do not count. NaN stands for no callback. */
  readonly firstAtMs: number
  readonly lastAtMs: number
  readonly latencies: Latencies
  readonly lost: number
  readonly connections: number
}

const HEAD_END = '\r\n\r\n'
const ANSWER =
  'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{"status":"ok"}'
const { delayMs } = settingsFromBench<Settings>()

class Arrivals {
  readonly holes: ReadonlySet<number>
  readonly #measureFromMs: number
  readonly #ids = new Set<string>()
  readonly #latencies: number[] = []
  #arrivals = 0
  #firstAtMs = Number.NaN
  #lastAtMs = Number.NaN
  lost = 0
  connections = 0

  constructor(holes: number, measureFromMs: number) {
    this.holes = blackHoles(holes)
    this.#measureFromMs = measureFromMs
  }

  arrived(head: string, body: string): void {
    const atMs = monotonicMs()
    this.#arrivals += 1
    const id = after(head, 'webhook-id: ')
    if (id === null) throw new Error(`a callback came without its id:\n${head}`)
    if (this.#ids.has(id)) return
    this.#ids.add(id)
    if (this.#ids.size === 1) this.#firstAtMs = atMs
    this.#lastAtMs = atMs
    const sentMs = Number.parseFloat(after(body, '"sent_ms":') ?? '')
    if (sentMs >= this.#measureFromMs) this.#latencies.push(atMs - sentMs)
  }

  report(): ReceiversReport {
    return {
      kind: 'report',
      callbacks: this.#ids.size,
      arrivals: this.#arrivals,
      firstAtMs: this.#firstAtMs,
      lastAtMs: this.#lastAtMs,
      latencies: summarise(this.#latencies),
      lost: this.lost,
      connections: this.connections,
    }
  }
}

function after(text: string, name: string): string | null {
  const at = text.lastIndexOf(name)
  if (at < 0) return null
  const end = text.indexOf('\r\n', at)
  return text.slice(at + name.length, end < 0 ? undefined : end)
}

let arrivals = new Arrivals(0, 0)

function receive(socket: Socket, host: number): void {
  let received = ''
  arrivals.connections += 1
  socket.setNoDelay(true)
  socket.setEncoding('latin1')
  // Senders give up on black holes, and may close the connection in any way.
  socket.on('error', () => {})
  socket.on('data', (text: unknown) => {
    received = received === '' ? String(text) : received + String(text)
    const headEnd = received.indexOf(HEAD_END)
    if (headEnd < 0) return
    const head = received.slice(0, headEnd).toLowerCase()
    const bodyStart = headEnd + HEAD_END.length
    if (received.length - bodyStart < Number.parseInt(after(head, 'content-length: ') ?? '', 10)) return
    const body = received.slice(bodyStart)
    received = ''
    if (arrivals.holes.has(host)) {
      arrivals.lost += 1
      return
    }
    arrivals.arrived(head, body)
    setTimeout(() => {
      if (socket.writable) socket.write(ANSWER, 'latin1')
    }, delayMs)
  })
}

function listen(host: number, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => receive(socket, host))
    server.once('error', reject)
    server.listen({ port, host: addressOf(host), backlog: 1024 }, () =>
      resolve((server.address() as AddressInfo).port),
    )
  })
}

onBenchMessage<ReceiversOrder>((order) => {
  if (order.kind === 'expect') {
    arrivals = new Arrivals(order.holes, order.measureFromMs)
    sendToBench({ kind: 'expecting' })
  } else {
    sendToBench(arrivals.report())
  }
})

const port = await listen(0, 0)
for (let host = 1; host < HOSTS; host++) await listen(host, port)
sendToBench({ kind: 'ready', port })
