/** Counts and logs every request whose response was sent. */
import type { CompletedRequest } from '../http/server.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

export function requestReporter(metrics: Pick<Metrics, 'requestCompleted'>, log: Log) {
  return (request: CompletedRequest): void => {
    metrics.requestCompleted(request)
    const { requestId, method, route, status, ms, from, account, jobIds } = request
    const tenths = Math.round(ms * 10) / 10
    const fields = {
      request_id: requestId,
      method,
      route,
      status,
      ms: tenths,
      from,
      account,
      job_ids: jobIds,
    }
    if (status >= 500) log.warn(fields, 'request completed')
    else log.info(fields, 'request completed')
  }
}
