/** Starts and stops the thread that renews this node's lease, and reports to it that the event loop is running. */
import { Worker } from 'node:worker_threads'
import { type Clock, wholeMs } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { moduleURL } from '../module-url.ts'
import type { Heartbeat } from '../queue/node-lease.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { HeartbeatData, HeartbeatReport } from './heartbeat-thread.ts'
import { REPORT_EVERY_MS } from './lease-renewal.ts'

/** The thread needs little heap, because it only renews one row. */
const HEAP = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 }
/** How long a shutdown waits for a renewal in progress, in milliseconds. */
const STOP_MS = 2000

export interface HeartbeatOptions {
  readonly settings: Settings
  readonly node: string
  readonly clock: Pick<Clock, 'after'>
  readonly onExpired: () => void
  /** Called when a renewal failed. It is retried. */
  readonly onError: (error: Error) => void
  /** Called when the thread exited unexpectedly. The process must exit, because its lease will expire. */
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
  // The timer uses the real clock even if a test passes another one, because the thread measures real time.
  const reporting = setInterval(() => Atomics.add(reports, 0, 1), REPORT_EVERY_MS).unref()
  const thread = new Worker(moduleURL('./heartbeat-thread.ts', import.meta.url), {
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
