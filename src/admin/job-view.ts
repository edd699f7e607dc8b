/** Jobs as the admin API returns them. Times are Unix seconds, with fractions. */
import type { CallbackDetails } from '../store/callback-store.ts'
import type { JobContent, JobDetails, JobSummary } from '../store/job-search-store.ts'
import { type CallbackDetailsView, callbackDetailsView } from './callback-view.ts'
import type { UpstreamTrouble } from './overview.ts'

export interface JobSummaryView {
  readonly job_id: string
  readonly account: string
  readonly tier: string
  readonly model: string
  readonly status: JobSummary['status']
  readonly created_at: number
  readonly claimed_at: number | null
  readonly settled_at: number | null
  readonly attempts: number
  readonly error_code: string | null
  readonly target: string | null
  readonly input_tokens: number | null
  readonly output_tokens: number | null
  readonly cache_hit: boolean
  readonly callback: JobSummary['callback']
}

export interface TimelineEntry {
  readonly at: number
  readonly what: 'accepted' | 'assigned' | 'call' | 'settled' | 'callback'
  readonly detail: string | null
}

export interface JobDetailsView extends Omit<JobSummaryView, 'callback'> {
  readonly response_format: JobDetails['format']
  readonly deaths: number
  readonly timeline: readonly TimelineEntry[]
  /** Present while the job is queued and this node cannot call any of its targets, named as `upstream/model`. */
  readonly waiting_for_upstream: (UpstreamTrouble & { readonly targets: readonly string[] }) | null
  readonly callback: CallbackDetailsView | null
}

/** Why the jobs of a route wait, according to this node. */
export interface WaitingRoute {
  /** Unix milliseconds. */
  readonly unavailableSinceMs: number | null
  readonly trouble: {
    readonly kind: UpstreamTrouble['reason']
    readonly status: number | null
    readonly message: string
  } | null
}

export function jobSummaryView(job: JobSummary): JobSummaryView {
  const { usage } = job
  return {
    job_id: job.id,
    account: job.account,
    tier: job.tier,
    model: job.model,
    status: job.status,
    created_at: job.createdAtMs / 1000,
    claimed_at: seconds(job.claimedAtMs),
    settled_at: seconds(job.settledAtMs),
    attempts: job.attempts,
    error_code: job.errorCode,
    target: usage?.target ?? null,
    input_tokens: usage?.input_tokens ?? null,
    output_tokens: usage?.output_tokens ?? null,
    cache_hit: usage?.cache_hit ?? false,
    callback: job.callback,
  }
}

/** @param routeOf returns why jobs of a route wait; undefined if they do not have to */
export function jobDetailsView(
  job: JobDetails,
  callback: CallbackDetails | null,
  routeOf: (route: string) => WaitingRoute | undefined,
): JobDetailsView {
  return {
    ...jobSummaryView(job),
    response_format: job.format,
    deaths: job.crashCount,
    timeline: timelineOf(job, callback),
    waiting_for_upstream: waitingView(job, routeOf),
    callback: callback && callbackDetailsView(callback),
  }
}

function waitingView(
  { queued, createdAtMs }: JobDetails,
  routeOf: (route: string) => WaitingRoute | undefined,
): JobDetailsView['waiting_for_upstream'] {
  const found = queued === null ? undefined : routeOf(queued.route)
  if (queued === null || !found?.trouble || found.unavailableSinceMs === null) return null
  const { kind: reason, status, message } = found.trouble
  const sinceMs = queued.waitsSinceMs ?? Math.max(createdAtMs, found.unavailableSinceMs)
  return { targets: queued.route.split(' '), since: sinceMs / 1000, reason, status, message }
}

/** Returns JSON text. Parts that are stored as JSON text are copied unparsed, because parsing could change large numbers. */
export function jobContentJson(content: JobContent): string {
  const { messagesJson, responseFormatJson, contentJson, errorJson, receiptJson } = content
  const result = contentJson === null ? 'null' : `{"response_content":${contentJson}}`
  return `{"messages":${messagesJson},"response_format":${responseFormatJson},"result":${result},"error":${errorJson ?? 'null'},"receipt":${receiptJson ?? 'null'}}`
}

/** The part of a stored receipt that the timeline shows. Receipts of earlier versions may lack the time of a call. */
interface StoredCall {
  readonly target: string
  readonly kind: string
  readonly status: number | null
  readonly at_ms?: number
  readonly ms: number
  readonly finish_reason?: 'length'
}

function timelineOf(job: JobDetails, callback: CallbackDetails | null): TimelineEntry[] {
  const entries: TimelineEntry[] = [{ at: job.createdAtMs / 1000, what: 'accepted', detail: null }]
  const add = (atMs: number, what: TimelineEntry['what'], detail: string) =>
    entries.push({ at: atMs / 1000, what, detail })
  if (job.claimedAtMs !== null) add(job.claimedAtMs, 'assigned', `attempt ${job.attempts}`)
  for (const { at_ms, target, kind, status, ms, finish_reason } of callsOf(job)) {
    const answer = status === null ? 'no answer' : String(status)
    const cut = finish_reason === undefined ? '' : ', cut off at the length limit'
    if (at_ms !== undefined) add(at_ms, 'call', `${target}: ${kind}, ${answer}, ${Math.round(ms)} ms${cut}`)
  }
  if (job.settledAtMs !== null) {
    const code = job.errorCode === null ? '' : `: ${job.errorCode}`
    add(job.settledAtMs, 'settled', `${job.status}${code}${job.usage?.cache_hit ? ' (cached response)' : ''}`)
  }
  for (const { atMs, attempt, status, error, ms } of callback?.log ?? []) {
    add(atMs, 'callback', `attempt ${attempt}: ${status ?? error}, ${Math.round(ms)} ms`)
  }
  return entries.sort((one, other) => one.at - other.at)
}

function callsOf({ receiptJson }: JobDetails): readonly StoredCall[] {
  if (receiptJson === null) return []
  return (JSON.parse(receiptJson) as { calls?: readonly StoredCall[] }).calls ?? []
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000
}
