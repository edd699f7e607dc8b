/** Creates the request threads, and the server that hands them their connections. */
import type { Server } from 'node:http'
import { systemClock, wholeMs } from '../clock.ts'
import type { ConnectionLimits } from '../http/load-shedding/connection-limits.ts'
import { moduleURL } from '../module-url.ts'
import { errorFields } from '../telemetry/log.ts'
import { requestReporter } from '../telemetry/report-request.ts'
import { HandoverServer } from '../threads/handover-server.ts'
import { RequestThreads } from '../threads/request-threads.ts'
import { SharedCallers, ThreadCalls } from '../threads/thread-calls.ts'
import { createJobCreator, type HttpParts, stallReporter } from './http.ts'
import type { RequestThreadData } from './request-thread.ts'
import { watchThreads } from './thread-watch.ts'

export interface RequestThreadParts
  extends Pick<
    HttpParts,
    | 'settings'
    | 'store'
    | 'enqueuer'
    | 'pendingResponses'
    | 'pool'
    | 'clock'
    | 'log'
    | 'metrics'
    | 'bytes'
    | 'limits'
  > {
  readonly threads: number
  readonly connections: ConnectionLimits
  /** The HTTP server of the main thread, which answers what request threads forward. */
  readonly server: Server
  readonly onFatal: (error: Error) => void
}

/** Resolves when every thread runs. */
export async function createRequestThreads(parts: RequestThreadParts) {
  const { settings, threads, connections, log, metrics, limits, onFatal } = parts
  const reports = Array.from({ length: threads }, newReports)
  const callers = new SharedCallers()
  const options = {
    ...parts,
    authentication: limits.authentication,
    readCounter: limits.readCounter,
    // The HTTP server meets the quota, too, and counts it.
    creator: createJobCreator(parts, () => {}),
    retentionMs: wholeMs(settings.jobs.retention_seconds),
    onUnavailable: (error: Error) => {
      metrics.databaseRejected()
      log.error(errorFields(error), 'a request failed')
    },
  }
  const requestThreads = new RequestThreads({
    threads,
    script: moduleURL('./request-thread.ts', import.meta.url),
    dataOf: (thread): RequestThreadData => ({ settings, reports: reports[thread] ?? newReports() }),
    callsOf: (port) => new ThreadCalls(options, callers, port),
    onTunnel: (tunnel) => parts.server.emit('connection', tunnel),
    onCompleted: requestReporter(metrics, log),
    clock: parts.clock,
    onStalled: stallReporter(metrics, log),
    onFatal,
  })
  await requestThreads.started()
  const hangMs = wholeMs(settings.jobs.hang_seconds)
  // On the real clock: an event loop hangs in real time, whatever clock a test uses.
  const endWatch = watchThreads({ reports, hangMs, clock: systemClock, onHang: onFatal })
  const listening = new HandoverServer({
    onConnection: (socket) => {
      const release = connections.admit(socket)
      if (release !== null) requestThreads.accept(socket, release)
    },
    drain: () => requestThreads.drain(),
  })
  const end = async () => {
    endWatch()
    await requestThreads.end()
  }
  return {
    listening,
    state: () => requestThreads.state(),
    closeAllConnections: () => requestThreads.cutOff(),
    end,
  }
}

function newReports(): Int32Array<SharedArrayBuffer> {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
}
