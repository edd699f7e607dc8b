/**
 * The heartbeat of a node renews its lease on a separate thread and connection, so that a blocked event loop does not cost the
 * node its jobs. The thread also watches the event loop, and kills the process if that hangs. The thread runs this file, too.
 */
import { type MessagePort, parentPort, Worker, workerData } from 'node:worker_threads'
import { type Clock, systemClock, wholeMs } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Heartbeat } from '../queue/node-lease.ts'
import type { Leases } from '../store/node-store.ts'
import { openLeases } from '../store/open.ts'
import { StoreUnavailable } from '../store/store.ts'
import { LogWriter, logLine } from '../telemetry/log-writer.ts'

interface HeartbeatData {
  readonly database: string
  readonly prepare: boolean
  readonly statementMs: number
  readonly node: string
  readonly leaseMs: number
  readonly hangMs: number
  /** Both threads share this memory. The main thread increments the number once a second while its event loop runs. */
  readonly reports: Int32Array<SharedArrayBuffer>
}

/** `started`: the thread has taken the lease. `expired`: the lease had expired, and another node had rescued the jobs. */
type HeartbeatReport =
  | { readonly kind: 'started' | 'expired' }
  | { readonly kind: 'not started' | 'failed'; readonly message: string }

/** The thread needs little heap, because it only renews one row. */
const HEAP = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 }
/** A shutdown waits this long for a renewal in progress before it terminates the thread. */
const STOP_MS = 2000

interface HeartbeatOptions {
  readonly settings: Settings
  readonly node: string
  readonly clock: Pick<Clock, 'after'>
  readonly onExpired: () => void
  /** Reports each failed renewal. The thread then tries again. */
  readonly onError: (error: Error) => void
  /** Reports that the thread exited unexpectedly. The process must exit, because nobody renews its lease. */
  readonly onFatal: (error: Error) => void
}

/** Rejects if the lease cannot be taken. */
export async function startHeartbeat(options: HeartbeatOptions): Promise<Heartbeat> {
  const { settings, node, clock, onExpired, onError, onFatal } = options
  const reports = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const data: HeartbeatData = {
    database: settings.database,
    prepare: settings.postgres.prepared_statements,
    statementMs: wholeMs(settings.postgres.statement_timeout_seconds),
    node,
    leaseMs: wholeMs(settings.jobs.lease_seconds),
    hangMs: wholeMs(settings.jobs.hang_seconds),
    reports,
  }
  // This timer uses the real clock even in tests with another clock, because the thread measures real time.
  const reporting = setInterval(() => Atomics.add(reports, 0, 1), REPORT_EVERY_MS).unref()
  const thread = new Worker(new URL(import.meta.url), {
    workerData: data,
    resourceLimits: HEAP,
  })
  const exited = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
  let state: 'running' | 'stopping' = 'running'
  const stop = async () => {
    state = 'stopping'
    clearInterval(reporting)
    const cancel = clock.after(STOP_MS, () => void thread.terminate())
    thread.postMessage('stop')
    await exited
    cancel()
  }
  try {
    await started(thread)
  } catch (error) {
    await stop()
    throw error
  }
  thread.on('message', (report: HeartbeatReport) => {
    if (report.kind === 'expired') onExpired()
    else if (report.kind === 'failed') onError(new StoreUnavailable(report.message))
  })
  let failure = new Error('the heartbeat thread exited')
  thread.once('error', (error: Error) => {
    failure = error
  })
  void exited.then(() => {
    if (state === 'running') onFatal(failure)
  })
  return { stop }
}

function started(thread: Worker): Promise<void> {
  return new Promise((resolve, reject) => {
    const exited = () => reject(new Error('the heartbeat thread exited'))
    thread.once('error', reject)
    thread.once('exit', exited)
    thread.once('message', (report: HeartbeatReport) => {
      thread.off('error', reject)
      thread.off('exit', exited)
      if (report.kind === 'not started') reject(new StoreUnavailable(report.message))
      else resolve()
    })
  })
}

/** The lease is renewed this many times within its duration. */
const RENEWALS = 3
/** A failing renewal is tried this many times within the duration of the lease. */
const RENEWAL_TRIES = 9

interface LeaseRenewalOptions {
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly leases: Pick<Leases, 'renew'>
  readonly node: string
  readonly leaseMs: number
  /** Reports that the lease had expired and another node had rescued the jobs. The node holds the lease again. */
  readonly onExpired: () => void
  /** Reports each failed renewal. The loop then tries again. */
  readonly onError: (error: unknown) => void
}

export class LeaseRenewal {
  readonly #options: LeaseRenewalOptions
  readonly #loop: PollingLoop
  #renewedMs = 0

  constructor(options: LeaseRenewalOptions) {
    const { clock, leaseMs, onError } = options
    this.#options = options
    this.#loop = new PollingLoop({
      // Without `about`, the pauses are exact. The age of a lease at the beginning of an outage depends on that.
      clock: { after: (ms, callback) => clock.after(ms, callback) },
      pauseMs: leaseMs / RENEWAL_TRIES,
      task: () => this.#renewIfDue(),
      onError,
    })
  }

  async start(): Promise<void> {
    const { clock, leases, node, leaseMs } = this.#options
    this.#renewedMs = clock.steadyMs()
    await leases.renew(node, leaseMs)
    this.#loop.start()
  }

  /** Resolves when no renewal is in progress. The lease is not removed: it expires. */
  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #renewIfDue(): Promise<void> {
    const { clock, leases, node, leaseMs, onExpired } = this.#options
    const askedMs = clock.steadyMs()
    if (askedMs - this.#renewedMs < leaseMs / RENEWALS) return
    const isKept = await leases.renew(node, leaseMs)
    this.#renewedMs = askedMs
    if (!isKept) onExpired()
  }
}

/** The main thread reports this often that its event loop runs, and the heartbeat thread checks as often. */
export const REPORT_EVERY_MS = 1000

/** Detects that the main thread's event loop hangs. A pause of the whole process counts as two seconds at most. */
export class LoopWatch {
  readonly #hangMs: number
  #reports = 0
  #lookedMs: number
  #silentMs = 0

  constructor(hangMs: number, steadyMs: number) {
    this.#hangMs = hangMs
    this.#lookedMs = steadyMs
  }

  /** @param reports how many times the event loop has reported since the start */
  hangs(reports: number, steadyMs: number): boolean {
    const passedMs = Math.min(steadyMs - this.#lookedMs, 2 * REPORT_EVERY_MS)
    this.#lookedMs = steadyMs
    this.#silentMs = reports === this.#reports ? this.#silentMs + passedMs : 0
    this.#reports = reports
    return this.#silentMs >= this.#hangMs
  }
}

/** Even with a short lease, a busy database must have this much time to respond. */
const LEAST_STATEMENT_MS = 1000

async function keepLease(port: MessagePort, data: HeartbeatData): Promise<void> {
  const { database, prepare, node, leaseMs } = data
  const report = (message: HeartbeatReport) => port.postMessage(message)
  // If a renewal hangs on a dead connection, there must still be time to renew the lease on a new connection.
  const statementMs = Math.min(data.statementMs, Math.max(LEAST_STATEMENT_MS, leaseMs / RENEWAL_TRIES))
  const leases = await openLeases(database, { prepare, statementMs })
  const renewal = new LeaseRenewal({
    clock: systemClock,
    leases,
    node,
    leaseMs,
    onExpired: () => report({ kind: 'expired' }),
    onError: (error) => report({ kind: 'failed', message: messageOf(error) }),
  })
  port.once('message', () => void end(port, renewal, leases))
  try {
    await renewal.start()
  } catch (error) {
    report({ kind: 'not started', message: messageOf(error) })
    return
  }
  watchLoop(data)
  report({ kind: 'started' })
}

async function end(port: MessagePort, renewal: LeaseRenewal, leases: Leases): Promise<void> {
  await renewal.stop()
  await leases.close()
  port.close()
}

function watchLoop({ reports, hangMs, node }: HeartbeatData): void {
  const watch = new LoopWatch(hangMs, systemClock.steadyMs())
  const look = () => {
    if (watch.hangs(Atomics.load(reports, 0), systemClock.steadyMs())) endProcess(hangMs, node)
  }
  setInterval(look, REPORT_EVERY_MS).unref()
}

/** Uses SIGKILL, because the blocked main thread runs no signal handlers, and a thread cannot end the process otherwise. */
function endProcess(hangMs: number, node: string): void {
  const message = `the event loop has not reported for ${hangMs / 1000} s (jobs.hang_seconds); exiting, so that its jobs run on other nodes`
  const writer = new LogWriter(2, () => '')
  writer.write(logLine('error', { node }, message))
  writer.flush()
  process.kill(process.pid, 'SIGKILL')
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

// Threads of other modules may import this one, too.
if (parentPort && workerData?.reports instanceof Int32Array)
  void keepLease(parentPort, workerData as HeartbeatData)
