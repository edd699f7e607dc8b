/**
 * Generates load in a separate process: a closed loop over N connections, or many requests held at once. Checks the status of
 * every answer, that it belongs to its request, and that it contains the expected text.
 */

import { onBenchMessage, sendToBench } from './bench-channel.ts'
import { Connection } from './connection.ts'
import { correlationIdGenerator } from './correlation-id.ts'
import { monotonicMs } from './monotonic.ts'
import { type Latencies, summarise } from './percentiles.ts'
import { PreparedRequest, type RequestShape } from './request.ts'

export interface Target extends RequestShape {
  readonly port: number
  /** If present, these are requested in turn instead of `path`. They cannot have correlation IDs. */
  readonly paths?: readonly string[]
  /** Every fourth caller of `callers.ts` creates its jobs here. */
  readonly batch?: Target
  readonly expect: {
    readonly status: number
    readonly text: string
    readonly correlationId: boolean
  }
}

export type Order =
  | {
      readonly kind: 'run'
      readonly target: Target
      readonly connections: number
      readonly warmUpMs: number
      readonly measureMs: number
      readonly ports?: readonly number[]
      /** If absent, the generator sends as many requests as possible. */
      readonly perSecond?: number
      /** If true, a broken connection is not a failure, because the benchmark kills the server on purpose. */
      readonly mayBreak?: boolean
    }
  | { readonly kind: 'hold'; readonly target: Target; readonly connections: number }

export interface RunResult {
  readonly kind: 'result'
  readonly perSecond: number
  readonly latencies: Latencies
  /** Counts answers during the warm-up, too. */
  readonly answers: number
  readonly jobIds: readonly string[]
  readonly failures: readonly string[]
  /** Only `callers.ts` sets this, because the client repeats requests after 429 and 503. */
  readonly retries?: number
}

/** Tells the benchmark when the measured time starts and ends, so that it can read CPU times. */
export type Phase = { readonly kind: 'measuring' | 'measured' }

export interface HeldResult {
  readonly kind: 'held result'
  readonly answeredAtMs: readonly (readonly [correlationId: string, atMs: number])[]
  readonly failures: readonly string[]
}

const JOB_ID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g
/** A loopback address has 28,000 ports for outgoing connections, so more connections need more source addresses. */
const PER_ADDRESS = 20_000
const OPENING_AT_ONCE = 100
const PAUSE_MS = 25

async function openOn(ports: readonly number[], target: Target, count: number): Promise<Connection[]> {
  const shares = ports.map((port, index) => {
    return { port, share: Math.floor(count / ports.length) + (index < count % ports.length ? 1 : 0) }
  })
  return (await Promise.all(shares.map(({ port, share }) => openAll({ ...target, port }, share)))).flat()
}

async function openAll(target: Target, count: number): Promise<Connection[]> {
  const connections: Connection[] = []
  while (connections.length < count) connections.push(...(await openSome(target, count, connections.length)))
  return connections
}

function openSome({ port }: Target, count: number, opened: number): Promise<Connection[]> {
  return Promise.all(
    Array.from({ length: Math.min(OPENING_AT_ONCE, count - opened) }, (_, index) => {
      const address = Math.floor((opened + index) / PER_ADDRESS)
      return Connection.open(port, address === 0 ? undefined : `127.0.0.${1 + address}`)
    }),
  )
}

function wrong({ expect }: Target, status: number, body: string, correlationId: string): string | null {
  if (status !== expect.status || !body.includes(expect.text)) return `${status} ${body.slice(0, 300)}`
  if (expect.correlationId && !body.includes(correlationId))
    return `an answer to another request: ${body.slice(0, 300)}`
  return null
}

const nextCorrelationId = correlationIdGenerator()

function requestsOf(target: Target, connection: number, connections: number): PreparedRequest[] {
  const { paths = [target.path] } = target
  const own = paths.filter((_, index) => paths.length < connections || index % connections === connection)
  return own.map((path) => new PreparedRequest({ ...target, path }))
}

async function run(order: Extract<Order, { kind: 'run' }>): Promise<RunResult> {
  const { target, warmUpMs, measureMs } = order
  const { ports = [target.port], perSecond } = order
  const connections = await openOn(ports, target, order.connections)
  const paceMs = perSecond === undefined ? 0 : (1000 * connections.length) / perSecond
  const latencies: number[] = []
  const jobIds: string[] = []
  const failures: string[] = []
  let answers = 0
  const startMs = performance.now()
  const measureFromMs = startMs + warmUpMs
  const untilMs = measureFromMs + measureMs
  setTimeout(() => sendToBench({ kind: 'measuring' }), warmUpMs)
  setTimeout(() => sendToBench({ kind: 'measured' }), warmUpMs + measureMs)
  const loop = (connection: Connection, index: number) =>
    new Promise<void>((resolve) => {
      const requests = requestsOf(target, index, connections.length)
      let turn = 0
      // The starts are spread evenly, so that the connections do not all send at once.
      let dueMs = startMs + (paceMs * index) / connections.length
      const nextInPace = () => {
        const waitMs = dueMs - performance.now()
        dueMs += paceMs
        if (waitMs > 0) setTimeout(next, waitMs)
        else next()
      }
      const next = () => {
        const sentMs = performance.now()
        if (sentMs >= untilMs) return resolve()
        const request = requests[turn++ % requests.length]
        if (request === undefined) return resolve()
        const correlationId = request.renew(nextCorrelationId)
        connection.send(
          request.bytes,
          ({ status, body }) => {
            const nowMs = performance.now()
            const failure = wrong(target, status, body, correlationId)
            if (failure === null) {
              answers += 1
              jobIds.push(...(body.match(JOB_ID) ?? []))
              if (nowMs >= measureFromMs && nowMs < untilMs) latencies.push(nowMs - sentMs)
            } else if (failures.push(failure) > 20) {
              return resolve()
            }
            nextInPace()
          },
          (error) => {
            if (!order.mayBreak) failures.push(error.message)
            resolve()
          },
        )
      }
      nextInPace()
    })
  await Promise.all(connections.map(loop))
  for (const connection of connections) connection.close()
  return {
    kind: 'result',
    perSecond: (latencies.length * 1000) / measureMs,
    latencies: summarise(latencies),
    answers,
    jobIds,
    failures,
  }
}

/**
 * Sends one request on each of many connections, and ends when all are answered. Real callers do not send in one burst, so the
 * requests are spread over time.
 */
async function hold({ target, connections: count }: Extract<Order, { kind: 'hold' }>): Promise<HeldResult> {
  const connections: Connection[] = []
  const answeredAtMs: [string, number][] = []
  const failures: string[] = []
  const answers: Promise<void>[] = []
  const sendOn = (connection: Connection) =>
    new Promise<void>((resolve) => {
      const request = new PreparedRequest(target)
      const correlationId = request.renew(nextCorrelationId)
      connection.send(
        request.bytes,
        ({ status, body }) => {
          answeredAtMs.push([correlationId, monotonicMs()])
          const failure = wrong(target, status, body, correlationId)
          if (failure !== null) failures.push(failure)
          resolve()
        },
        (error) => {
          failures.push(error.message)
          resolve()
        },
      )
    })
  while (connections.length < count) {
    const some = await openSome(target, count, connections.length)
    connections.push(...some)
    answers.push(...some.map(sendOn))
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
  await Promise.all(answers)
  for (const connection of connections) connection.close()
  return { kind: 'held result', answeredAtMs, failures }
}

onBenchMessage<Order>((order) => {
  const ended = order.kind === 'run' ? run(order) : hold(order)
  ended.then(sendToBench, (error: Error) => {
    process.stderr.write(`${error.stack}\n`)
    process.exit(1)
  })
})
sendToBench({ kind: 'ready' })
