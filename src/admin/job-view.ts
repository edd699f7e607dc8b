/**
 * Defines what operators see of jobs and callbacks, and converts records of the store. Times are Unix seconds; those of jobs
 * have fractions. Of a callback, read-only admin tokens do not see the payload, the path of the URL or the responses of the
 * receiver.
 */
import { BATCH_PREFIX } from '../job/job-id.ts'
import { readQueueName } from '../job/priority.ts'
import type {
  CallbackAttempt as StoredAttempt,
  CallbackDetails as StoredCallback,
  CallbackSummary as StoredCallbackSummary,
} from '../store/callback-store.ts'
import type {
  JobContent as StoredContent,
  JobDetails as StoredDetails,
  JobSummary as StoredSummary,
} from '../store/job-search-store.ts'
import { BUDGET_QUEUES } from '../store/usage-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import {
  callbackState,
  count,
  jobStatus,
  originOf,
  orNull,
  paging,
  seconds,
  textOrNull,
  unixTime,
  unixTimeOrNull,
  wholeSeconds,
} from './fields.ts'
import { type UpstreamTrouble, upstreamTrouble } from './overview.ts'

const callbackAttempt = Type.Object({
  attempt: count,
  at: unixTime('When it started'),
  ms: Type.Number(),
  status: orNull(Type.Integer()),
  error: orNull(Type.String()),
  answer: textOrNull('The first 1 KiB of the response body; null for a read-only admin token.'),
})
export type CallbackAttempt = Static<typeof callbackAttempt>

const callbackFields = {
  job_id: Type.String(),
  account: Type.String(),
  url: Type.String({ description: 'Without its path for a read-only admin token.' }),
  state: callbackState,
  attempts: count,
  next_attempt_at: unixTimeOrNull('When the next attempt is due'),
  ended_at: unixTimeOrNull('When it was delivered or failed permanently'),
  last_attempt: orNull(callbackAttempt),
}
const callbackSummary = Type.Object(callbackFields)
export type CallbackSummary = Static<typeof callbackSummary>

export const callbackDetails = Type.Object({
  ...callbackFields,
  job_status: Type.String(),
  under_way: Type.Boolean(),
  header_names: Type.Array(Type.String(), {
    description: 'The names of the headers. Their values may be secret and are not shown.',
  }),
  callback_payload: textOrNull('The payload as JSON text; null for a read-only admin token.'),
  event: textOrNull('Of what it reports an event, such as `response`; null if it reports a job.'),
  log: Type.Array(callbackAttempt),
})
export type CallbackDetails = Static<typeof callbackDetails>

export const callbackList = Type.Object({
  callbacks: Type.Array(callbackSummary, { description: 'Newest job first.' }),
  ...paging,
})
export type CallbackList = Static<typeof callbackList>

const jobFields = {
  job_id: Type.String(),
  account: Type.String(),
  tier: Type.String(),
  model: Type.String(),
  status: jobStatus,
  created_at: unixTime('When it was accepted'),
  claimed_at: unixTimeOrNull('When a node last claimed it'),
  settled_at: unixTimeOrNull('When it ended'),
  attempts: count,
  error_code: orNull(Type.String()),
  target: orNull(Type.String()),
  input_tokens: orNull(count),
  output_tokens: orNull(count),
  cost: Type.Optional(
    Type.Integer({ description: 'In millionths of the currency; absent if its model has no price.' }),
  ),
  cache_hit: Type.Boolean(),
}
const jobSummary = Type.Object({ ...jobFields, callback: orNull(callbackState) })
export type JobSummary = Static<typeof jobSummary>

export const jobList = Type.Object({
  jobs: Type.Array(jobSummary, { description: 'Newest first.' }),
  ...paging,
})
export type JobList = Static<typeof jobList>

const timelineEntry = Type.Object({
  at: unixTime('When'),
  what: Type.Enum(['accepted', 'assigned', 'call', 'settled', 'callback']),
  detail: orNull(Type.String()),
})
export type TimelineEntry = Static<typeof timelineEntry>

export const jobDetails = Type.Object({
  ...jobFields,
  response_format: Type.Enum(['text', 'json', 'json with schema']),
  priority: Type.String({ description: '`high`, `normal` or `low`.' }),
  deadline: unixTimeOrNull('When it fails if it has not ended'),
  rerun_of: textOrNull('The job whose request this one repeats.'),
  reruns: Type.Array(Type.String(), { description: 'The jobs that repeat its request, oldest first.' }),
  deaths: Type.Integer({ description: 'The crash count: how many processes crashed while running the job.' }),
  timeline: Type.Array(timelineEntry),
  waiting_for_upstream: orNull(
    Type.Object(
      { targets: Type.Array(Type.String()), ...upstreamTrouble },
      { description: 'Present while the job is queued and this node cannot call any of its targets.' },
    ),
  ),
  waiting_for_budget: Type.Boolean({
    description: 'Whether the job is queued until the money cap of its account has room for it.',
  }),
  callback: orNull(callbackDetails),
  batch: orNull(
    Type.Object(
      { batch_id: Type.String(), custom_id: Type.String() },
      { description: 'Present if it is a line of a batch.' },
    ),
  ),
})
export type JobDetails = Static<typeof jobDetails>

export const jobContent = Type.Object({
  messages: Type.Array(Type.Unknown()),
  response_format: Type.Unknown(),
  result: orNull(Type.Object({ response_content: Type.Unknown() })),
  error: Type.Unknown(),
  receipt: Type.Unknown({
    description:
      'What was sent to the model server, and what it returned. Each entry of `calls` has the `target`, the result, the `roles` (`native`, `developer_as_system`, `merged_system` or `no_system`), the `json_mode` if JSON was requested (`json_schema_strict`, `json_schema`, `json_object`, `instruction` or `simulated`), the `instruction` that was added, if any, what it `cost` in millionths of the currency if the target has a price, `finish_reason` (`length`) if the answer was cut off at a length limit, and `other_format` (`roles`, `json_mode` or `both`) if the server had rejected the previous call and the same conversation was sent in another format. If the connection broke during the call, `broke` has the number of calls `in_progress` at that model, whether this `counts` against the job, and the fingerprint of its `schema`; a job with two such calls is repeated alone and without its schema, and may fail at the third. `calls_lost` means that a node crashed during the job, so calls may be missing. Calls of earlier versions lack `roles` and `json_mode`.',
  }),
})

export function callbackView(summary: StoredCallbackSummary): CallbackSummary {
  const { jobId, account, url, state, attempts, dueAtMs, endedAtMs, last } = summary
  return {
    job_id: jobId,
    account,
    url,
    state,
    attempts,
    next_attempt_at: wholeSeconds(dueAtMs),
    ended_at: wholeSeconds(endedAtMs),
    last_attempt: last && attemptView(last),
  }
}

/** The payload stays JSON text, because parsing could change large numbers. */
export function callbackDetailsView(details: StoredCallback): CallbackDetails {
  return {
    ...callbackView(details),
    job_status: details.jobStatus,
    under_way: details.inProgress,
    header_names: [...details.headerNames],
    callback_payload: details.payloadJson,
    event: details.event,
    log: details.log.map(attemptView),
  }
}

/** Removes what a read-only admin token must not show: the payload, the path of the URL, and the responses of receivers. */
export function withoutTexts<View extends CallbackSummary | CallbackDetails>(view: View): View {
  const without = (attempt: CallbackAttempt): CallbackAttempt => ({ ...attempt, answer: null })
  return {
    ...view,
    url: originOf(view.url),
    last_attempt: view.last_attempt && without(view.last_attempt),
    ...('log' in view && { callback_payload: null, log: view.log.map(without) }),
  }
}

function attemptView({ attempt, atMs, ms, status, error, answer }: StoredAttempt): CallbackAttempt {
  return { attempt, at: atMs / 1000, ms, status, error, answer }
}

export interface WaitingRoute {
  /** `unavailableSinceMs` is null if a target is available. */
  readonly unavailableSinceMs: number | null
  readonly trouble: {
    readonly kind: UpstreamTrouble['reason']
    readonly status: number | null
    readonly message: string
  } | null
}

export function jobSummaryView(job: StoredSummary): JobSummary {
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
    ...(usage?.cost !== undefined && { cost: usage.cost }),
    cache_hit: usage?.cache_hit ?? false,
    callback: job.callback,
  }
}

/** @param routeOf returns undefined if this node knows no reason why the jobs of the route wait */
export function jobDetailsView(
  job: StoredDetails,
  callback: StoredCallback | null,
  routeOf: (route: string) => WaitingRoute | undefined,
): JobDetails {
  return {
    ...jobSummaryView(job),
    response_format: job.format,
    priority: job.priority,
    deadline: seconds(job.deadlineMs),
    rerun_of: job.rerunOf,
    reruns: [...job.reruns],
    deaths: job.crashCount,
    timeline: timelineOf(job, callback),
    waiting_for_upstream: waitingView(job, routeOf),
    waiting_for_budget: job.queued !== null && BUDGET_QUEUES.includes(job.queued.route),
    callback: callback && callbackDetailsView(callback),
    batch: job.batch && { batch_id: `${BATCH_PREFIX}${job.batch.id}`, custom_id: job.batch.custom_id },
  }
}

function waitingView(
  { queued, createdAtMs }: StoredDetails,
  routeOf: (route: string) => WaitingRoute | undefined,
): JobDetails['waiting_for_upstream'] {
  const route = queued === null ? '' : readQueueName(queued.route).route
  const found = queued === null ? undefined : routeOf(route)
  if (queued === null || !found?.trouble || found.unavailableSinceMs === null) return null
  const { kind: reason, status, message } = found.trouble
  const sinceMs = queued.waitsSinceMs ?? Math.max(createdAtMs, found.unavailableSinceMs)
  return { targets: route.split(' '), since: sinceMs / 1000, reason, status, message }
}

/** Copies stored JSON text without parsing, because parsing could change large numbers. */
export function jobContentJson(content: StoredContent): string {
  const { messagesJson, responseFormatJson, optionsJson, metadataJson, contentJson, errorJson, receiptJson } =
    content
  const options = optionsJson === null ? '' : `,"options":${optionsJson}`
  const metadata = metadataJson === null ? '' : `,"metadata":${metadataJson}`
  const result = contentJson === null ? 'null' : `{"response_content":${contentJson}}`
  return `{"messages":${messagesJson},"response_format":${responseFormatJson}${options}${metadata},"result":${result},"error":${errorJson ?? 'null'},"receipt":${receiptJson ?? 'null'}}`
}

/** The timeline shows these fields of a call in a receipt. Receipts of early versions have no times. */
interface StoredCall {
  readonly target: string
  readonly kind: string
  readonly status: number | null
  readonly at_ms?: number
  readonly ms: number
  readonly finish_reason?: 'length'
}

function timelineOf(job: StoredDetails, callback: StoredCallback | null): TimelineEntry[] {
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

function callsOf({ receiptJson }: StoredDetails): readonly StoredCall[] {
  if (receiptJson === null) return []
  return (JSON.parse(receiptJson) as { calls?: readonly StoredCall[] }).calls ?? []
}
