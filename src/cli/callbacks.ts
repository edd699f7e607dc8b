/** `parley callbacks`: what became of callbacks, and sending them again. Works beside a running server. */
import { replayFailedCallbacks, replayCallback as replayingCallback } from '../admin/actions/jobs.ts'
import { callbackDetailsView, callbackView } from '../admin/callback-view.ts'
import { loadRetentionMs } from '../config/load.ts'
import { isJobId } from '../job/job-id.ts'
import type {
  CallbackAttempt,
  CallbackDetails,
  CallbackFilter,
  CallbackState,
  CallbackSummary,
} from '../store/callback-store.ts'
import type { Page } from '../store/pagination.ts'
import { CommandError } from './command-error.ts'
import { printLine } from './output.ts'
import { printable } from './printable.ts'
import { table } from './table.ts'
import { onRecord, withOperatorStore } from './with-operator-store.ts'

/** Characters of an answer or an error in a line. */
const SHOWN = 60
const SHOWN_ALONE = 300

export interface ListCallbacksOptions {
  readonly failed?: true
  readonly state?: CallbackState
  readonly account?: string
  readonly before?: string
  readonly limit: number
  readonly json?: true
  readonly config?: string
}

export async function listCallbacks(options: ListCallbacksOptions): Promise<void> {
  const { failed, account, before, limit, json, config } = options
  const state = failed ? 'failed' : options.state
  if (before !== undefined && !isJobId(before)) {
    throw new CommandError('--before: must be the id of a job, as the list before ended with.')
  }
  const filter = {
    limit,
    ...(state && { state }),
    ...(account !== undefined && { account }),
    ...(before !== undefined && { beforeJobId: before }),
  }
  const { found: callbacks, next } = await withOperatorStore(config, (store) =>
    searchedInFull(filter, (part) => store.searchCallbacks(part)),
  )
  if (json) return printLine(JSON.stringify(callbacks.map(callbackView), null, 2))
  if (callbacks.length === 0)
    return printLine(
      state ? `No callback ${state === 'failed' ? 'has' : 'is'} ${state}.` : 'There are no callbacks.',
    )
  printLine(
    table([['JOB ID', 'ACCOUNT', 'STATE', 'ATTEMPTS', 'LAST ANSWER', 'RECEIVER'], ...callbacks.map(rowOf)]),
  )
  if (next !== null) printLine(`More: add --before ${next}`)
}

type Search = (filter: CallbackFilter) => Promise<Page<CallbackSummary>>

/** Goes on where a search stopped at its bound: nobody waits for this process but who called it. */
export async function searchedInFull(filter: CallbackFilter, search: Search): Promise<Page<CallbackSummary>> {
  const found: CallbackSummary[] = []
  for (let from = filter; ; ) {
    const page = await search({ ...from, limit: filter.limit - found.length })
    found.push(...page.found)
    if (page.complete || page.next === null || found.length === filter.limit) return { ...page, found }
    from = { ...filter, beforeJobId: page.next }
  }
}

export async function showCallback(
  jobId: string,
  { json, config }: { json?: true; config?: string },
): Promise<void> {
  const details = await withOperatorStore(config, (store) => store.findCallback(jobId))
  if (!details) throw noSuchCallback(jobId)
  printLine(json ? JSON.stringify(callbackDetailsView(details), null, 2) : inFull(details))
}

export interface ReplayOptions {
  readonly allFailed?: true
  readonly account?: string
  readonly json?: true
  readonly config?: string
}

export async function replayCallbacks(jobId: string | undefined, options: ReplayOptions): Promise<void> {
  if ((jobId === undefined) === (options.allFailed === undefined)) {
    throw new CommandError('Name either the id of one job, or --all-failed.')
  }
  if (jobId !== undefined && options.account !== undefined) {
    throw new CommandError('--account goes with --all-failed: the id of a job is enough.')
  }
  if (jobId === undefined) await replayAllFailed(options)
  else await replayOne(jobId, options)
}

async function replayOne(jobId: string, { json, config }: ReplayOptions): Promise<void> {
  const expiry = { nowMs: Date.now(), retentionMs: loadRetentionMs(process.env, config) }
  const replay = isJobId(jobId)
    ? await onRecord(config, (store) => replayingCallback(store, jobId, expiry))
    : 'unknown'
  if (replay === 'unknown') throw noSuchCallback(jobId)
  if (replay === 'under way') {
    throw new CommandError(`The callback of job ${jobId} is being sent just now. Nothing was changed.`)
  }
  if (json) return printLine(JSON.stringify({ replayed: 1 }, null, 2))
  printLine(`The callback of job ${jobId} is due now. A running server sends it within a second or so.`)
}

async function replayAllFailed({ account, json, config }: ReplayOptions): Promise<void> {
  const expiry = { nowMs: Date.now(), retentionMs: loadRetentionMs(process.env, config) }
  const replayed = await onRecord(config, (store) => replayFailedCallbacks(store, account, expiry))
  if (json) return printLine(JSON.stringify({ replayed }, null, 2))
  if (replayed === 0) return printLine('No callback has failed. Nothing was changed.')
  printLine(
    `${replayed} ${replayed === 1 ? 'callback is' : 'callbacks are'} due now, with all their attempts before them.`,
  )
}

function rowOf({
  jobId,
  account,
  state,
  attempts,
  dueAtMs,
  endedAtMs,
  last,
  url,
}: CallbackSummary): string[] {
  const when = endedAtMs ?? dueAtMs
  return [
    jobId,
    account,
    when === null ? state : `${state}${state === 'owed' ? ', next' : ''} ${timeOf(when)}`,
    String(attempts),
    last ? answerOf(last, SHOWN) : '',
    printable(url),
  ]
}

function inFull(details: CallbackDetails): string {
  const { jobId, account, jobStatus, state, dueAtMs, endedAtMs, underWay, url, headerNames, payloadJson } =
    details
  const facts = [
    ['job', `${jobId} (${jobStatus})`],
    ['account', account],
    ['state', stateInFull(state, underWay, endedAtMs ?? dueAtMs)],
    ['receiver', printable(url)],
    ['headers', headerNames.length === 0 ? 'none' : `${headerNames.join(', ')} (their values are not shown)`],
    ['payload', printable(payloadJson, SHOWN_ALONE)],
  ]
  const rows = details.log.map((one) => [
    String(one.attempt),
    timeOf(one.atMs),
    `${one.ms} ms`,
    answerOf(one, SHOWN_ALONE),
  ])
  const attempts =
    rows.length === 0
      ? 'No attempt is recorded yet.'
      : table([['ATTEMPT', 'TIME', 'TOOK', 'ANSWER'], ...rows])
  return `${table(facts)}\n\n${attempts}${aboutGaps(details)}`
}

function stateInFull(state: CallbackState, underWay: boolean, whenMs: number | null): string {
  if (underWay) return 'owed; an attempt is under way'
  const time = whenMs === null ? '' : ` ${timeOf(whenMs)}`
  return state === 'owed' ? `owed; the next attempt is due${time}` : `${state}${time}`
}

/** Attempts without a record, those under way apart. */
function aboutGaps({ attempts, log, underWay }: CallbackDetails): string {
  const first = log[0]?.attempt ?? 1
  const missing = attempts - first + 1 - log.length - (underWay ? 1 : 0)
  return missing > 0 ? '\n\nAttempts that are missing were cut off by the end of their process.' : ''
}

function answerOf({ status, error, answer }: CallbackAttempt, most: number): string {
  if (status === null) return printable(error ?? '', most)
  return answer ? `${status} ${printable(answer, most)}` : String(status)
}

/** To the second, in UTC. */
function timeOf(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

function noSuchCallback(jobId: string): CommandError {
  return new CommandError(
    `There is no callback of a job ${jobId}: the id is wrong, the job has expired, has not ended yet, or was created without one.`,
  )
}
