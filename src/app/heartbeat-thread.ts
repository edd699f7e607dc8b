/**
 * Renews this node's lease on a separate thread with its own database connection, so that a blocked event loop does not cost
 * the node its jobs. It also watches the event loop, and kills the process if the loop hangs for too long.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { systemClock } from '../clock.ts'
import type { Leases } from '../store/node-store.ts'
import { openLeases } from '../store/open.ts'
import { LogWriter, logLine } from '../telemetry/log-writer.ts'
import { LeaseRenewal, LoopWatch, RENEWAL_TRIES, REPORT_EVERY_MS } from './lease-renewal.ts'

/** A renewal may take at least this many milliseconds, because the database may be busy although the lease is short. */
const LEAST_STATEMENT_MS = 1000

export interface HeartbeatData {
  readonly database: string
  readonly prepare: boolean
  readonly statementMs: number
  readonly node: string
  readonly leaseMs: number
  readonly hangMs: number
  /** Shared memory. The event loop increments it each time it reports. */
  readonly reports: Int32Array<SharedArrayBuffer>
}

/**
 * `started`: the thread has taken the lease. `expired`: before a renewal, the lease had expired and another node had rescued
 * the jobs.
 */
export type HeartbeatReport =
  | { readonly kind: 'started' | 'expired' }
  | { readonly kind: 'not started' | 'failed'; readonly message: string }

async function keepLease(port: MessagePort, data: HeartbeatData): Promise<void> {
  const { database, prepare, node, leaseMs } = data
  const report = (message: HeartbeatReport) => port.postMessage(message)
  // The timeout of a renewal is so short that, after one on a dead connection, the next one on a new connection is still in
  // time.
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

/**
 * Kills the process with SIGKILL, because the main thread is blocked and cannot run signal handlers, and a thread has no other
 * way to end the process.
 */
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

if (parentPort) void keepLease(parentPort, workerData as HeartbeatData)
