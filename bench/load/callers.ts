/**
 * Simulates callers of the published client in a separate process. Each caller sends a prompt, waits for its answer, and sends
 * the next. Three of four use `createAndWait`, which sends a single create and then reads the job until it has ended. The
 * fourth uses `createBatch` with one job, and `waitAll`.
 *
 * The requests and waits are the client's, but are written to the socket directly, because that many instances of the client
 * would take most of the machine.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { backoffMs, retryAfterS } from '../../client/src/backoff.ts'
import { onBenchMessage, sendToBench } from './bench-channel.ts'
import { type Answer, Connection } from './connection.ts'
import { correlationIdGenerator } from './correlation-id.ts'
import type { Order, RunResult, Target } from './generator.ts'
import { summarise } from './percentiles.ts'
import { Prompts } from './prompts.ts'
import { PreparedRequest } from './request.ts'

type Run = Extract<Order, { kind: 'run' }>

const BATCH_CALLERS = 4
/** The client asks the server to hold a read for this many seconds. */
const WAIT_S = 50
const REPEAT_MS = 500
const OPENING_AT_ONCE = 100
const MOST_FAILURES = 20
const JOB_ID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/
const ENDED = '"status":"completed"'

const prompts = new Prompts()
const nextCorrelationId = correlationIdGenerator()

class Seen {
  readonly latencies: number[] = []
  readonly jobIds: string[] = []
  readonly failures: string[] = []
  answers = 0
  retries = 0
}

class Caller {
  readonly #connection: Connection
  readonly #target: Target
  readonly #request: PreparedRequest
  readonly #seen: Seen

  constructor(connection: Connection, target: Target, seen: Seen) {
    this.#connection = connection
    this.#target = target
    this.#request = new PreparedRequest(target)
    this.#seen = seen
  }

  async one(): Promise<boolean> {
    const { expect, batch: _, ...shape } = this.#target
    const correlationId = this.#request.renew(nextCorrelationId)
    this.#request.writePrompts(prompts)
    const created = await this.#sendUntilTaken(this.#request.bytes)
    const jobId = JOB_ID.exec(created.body)?.[0]
    if (jobId !== undefined) this.#seen.jobIds.push(jobId)
    const isWaiting = created.status === 202 && jobId !== undefined
    if (!isWaiting && created.status !== expect.status) return this.#fail(created)
    const ended = isWaiting ? await this.#wait(shape, jobId) : created
    const { text } = isWaiting ? { text: ENDED } : expect
    return (ended.body.includes(text) && ended.body.includes(correlationId)) || this.#fail(ended)
  }

  async #wait({ host, headers }: Pick<Target, 'host' | 'headers'>, jobId: string): Promise<Answer> {
    const { 'content-type': _, 'idempotency-key': __, ...readHeaders } = headers
    const path = `/api/v1/messages?ids=${jobId}&wait=${WAIT_S}&wait_for=all`
    const lines = Object.entries({ host, ...readHeaders }).map(([name, value]) => `${name}: ${value}\r\n`)
    const bytes = Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
    for (;;) {
      const answer = await this.#sendUntilTaken(bytes)
      if (answer.status !== 200 || !/"status":"(pending|assigned)"/.test(answer.body)) return answer
      await pause(REPEAT_MS)
    }
  }

  /** Repeats a rejected request with the same key after the client's pauses. Unlike the client, it never gives up. */
  async #sendUntilTaken(bytes: Buffer): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const answer = await this.#send(bytes)
      if (answer.status !== 429 && answer.status !== 503) return answer
      this.#seen.retries += 1
      const header = /^retry-after: (.*?)\r?$/m.exec(answer.head)?.[1] ?? null
      await pause(backoffMs(attempt, retryAfterS(header, Date.now())))
    }
  }

  #send(bytes: Buffer): Promise<Answer> {
    return new Promise((resolve, reject) => this.#connection.send(bytes, resolve, reject))
  }

  #fail({ status, body }: Answer): false {
    this.#seen.failures.push(`${status} ${body.slice(0, 300)}`)
    return false
  }

  close(): void {
    this.#connection.close()
  }
}

async function openAll({ target, connections }: Run, seen: Seen): Promise<Caller[]> {
  const callers: Caller[] = []
  const open = async (index: number) => {
    const { batch = target } = target
    const own = index % BATCH_CALLERS === BATCH_CALLERS - 1 ? batch : target
    return new Caller(await Connection.open(own.port), own, seen)
  }
  while (callers.length < connections) {
    const some = Math.min(OPENING_AT_ONCE, connections - callers.length)
    const from = callers.length
    callers.push(...(await Promise.all(Array.from({ length: some }, (_, index) => open(from + index)))))
  }
  return callers
}

async function run(order: Run): Promise<RunResult> {
  const { warmUpMs, measureMs } = order
  const seen = new Seen()
  const callers = await openAll(order, seen)
  const measureFromMs = performance.now() + warmUpMs
  const untilMs = measureFromMs + measureMs
  setTimeout(() => sendToBench({ kind: 'measuring' }), warmUpMs)
  setTimeout(() => sendToBench({ kind: 'measured' }), warmUpMs + measureMs)
  const loop = async (caller: Caller) => {
    try {
      while (performance.now() < untilMs && seen.failures.length < MOST_FAILURES) {
        const sentMs = performance.now()
        if (!(await caller.one())) continue
        seen.answers += 1
        const nowMs = performance.now()
        if (nowMs >= measureFromMs && nowMs < untilMs) seen.latencies.push(nowMs - sentMs)
      }
    } catch (error) {
      seen.failures.push(String(error))
    }
  }
  await Promise.all(callers.map(loop))
  for (const caller of callers) caller.close()
  const { latencies, answers, jobIds, failures, retries } = seen
  const perSecond = (latencies.length * 1000) / measureMs
  return { kind: 'result', perSecond, latencies: summarise(latencies), answers, jobIds, failures, retries }
}

onBenchMessage<Run>((order) => {
  run(order).then(sendToBench, (error: Error) => {
    process.stderr.write(`${error.stack}\n`)
    process.exit(1)
  })
})
sendToBench({ kind: 'ready' })
