/** `parley callbacks` lists and shows callbacks. The command reads the database directly, even while servers run. */
import { defined } from '../admin/fields.ts'
import { callbackDetailsView, callbackView } from '../admin/job-view.ts'
import { refusals } from '../admin/refusals.ts'
import { readJobId } from '../job/job-id.ts'
import type {
  CallbackAttempt,
  CallbackDetails,
  CallbackFilter,
  CallbackState,
  CallbackSummary,
} from '../store/callback-store.ts'
import type { Page } from '../store/chunked-search.ts'
import { withOperatorStore } from './database.ts'
import { CommandError, counted, printable, printLine, table, timeOf } from './input-output.ts'
import type { DefaultOptions } from './options.ts'

const MAX_LENGTH_IN_LIST = 60
const MAX_LENGTH = 300

export interface ListCallbacksOptions extends DefaultOptions {
  readonly failed?: true
  readonly state?: CallbackState
  readonly account?: string
  readonly before?: string
  readonly limit: number
}

export async function listCallbacks(options: ListCallbacksOptions): Promise<void> {
  const { failed, account, limit, json, config } = options
  const state = failed ? 'failed' : options.state
  const before = options.before === undefined ? undefined : readJobId(options.before)
  if (before === null) {
    throw new CommandError(
      `--before: ${options.before} is not a job ID. Pass the ID that the previous list ended with.`,
    )
  }
  const filter = { ...defined({ state, account, beforeJobId: before }), limit }
  const { items: callbacks, next } = await withOperatorStore(config, (store) =>
    searchedInFull(filter, (part) => store.searchCallbacks(part)),
  )
  if (json) return printLine(JSON.stringify(callbacks.map(callbackView), null, 2))
  if (callbacks.length === 0) {
    const of = account === undefined ? '' : ` of account ${account}`
    return printLine(
      state
        ? `No callback${of} ${state === 'failed' ? 'has' : 'is'} ${state}.`
        : `There are no callbacks${of}.`,
    )
  }
  printLine(
    table([['JOB ID', 'ACCOUNT', 'STATE', 'ATTEMPTS', 'LAST RESPONSE', 'RECEIVER'], ...callbacks.map(rowOf)]),
  )
  if (next !== null) printLine(`For older callbacks, add --before ${next}`)
}

type Search = (filter: CallbackFilter) => Promise<Page<CallbackSummary>>

/**
 * A search of the store stops after a limited number of rows. A command can wait, so it continues until the page is full. A
 * request to the admin API gets the short page instead.
 */
export async function searchedInFull(filter: CallbackFilter, search: Search): Promise<Page<CallbackSummary>> {
  const found: CallbackSummary[] = []
  for (let from = filter; ; ) {
    const page = await search({ ...from, limit: filter.limit - found.length })
    found.push(...page.items)
    if (page.complete || page.next === null || found.length === filter.limit) return { ...page, items: found }
    from = { ...filter, beforeJobId: page.next }
  }
}

export async function showCallback(given: string, { json, config }: DefaultOptions): Promise<void> {
  const jobId = readJobId(given)
  const details = jobId && (await withOperatorStore(config, (store) => store.findCallback(jobId)))
  if (!details) throw new CommandError(refusals.noSuchCallback(given).message)
  printLine(json ? JSON.stringify(callbackDetailsView(details), null, 2) : detailsText(details))
}

function rowOf(summary: CallbackSummary): string[] {
  const { jobId, account, state, attempts, dueAtMs, endedAtMs, last, url } = summary
  const when = endedAtMs ?? dueAtMs
  return [
    jobId,
    account,
    when === null ? state : `${state}${state === 'owed' ? ', next' : ''} ${timeOf(when)}`,
    String(attempts),
    last ? answerOf(last, MAX_LENGTH_IN_LIST) : '',
    printable(url),
  ]
}

function detailsText(details: CallbackDetails): string {
  const {
    jobId,
    account,
    jobStatus,
    state,
    dueAtMs,
    endedAtMs,
    inProgress,
    url,
    headerNames,
    payloadJson,
    event,
  } = details
  const facts = [
    ['job', `${jobId} (${jobStatus})`],
    ['account', account],
    ['state', stateText(state, inProgress, endedAtMs ?? dueAtMs)],
    ['receiver', printable(url)],
    ['headers', headerNames.length === 0 ? 'none' : `${headerNames.join(', ')} (their values are not shown)`],
    event === null ? ['payload', printable(payloadJson, MAX_LENGTH)] : ['event', `of the ${event}`],
  ]
  const rows = details.log.map((attempt) => [
    String(attempt.attempt),
    timeOf(attempt.atMs),
    `${attempt.ms} ms`,
    answerOf(attempt, MAX_LENGTH),
  ])
  const attempts =
    rows.length === 0
      ? 'No attempt has been made yet.'
      : table([['ATTEMPT', 'TIME', 'TOOK', 'ANSWER'], ...rows])
  return `${table(facts)}\n\n${attempts}${missingAttempts(details)}`
}

function stateText(state: CallbackState, inProgress: boolean, whenMs: number | null): string {
  if (inProgress) return 'owed; an attempt is in progress'
  const time = whenMs === null ? '' : ` ${timeOf(whenMs)}`
  return state === 'owed' ? `owed; the next attempt is due${time}` : `${state}${time}`
}

/** Returns a note if attempts have no record. The attempt in progress does not count. */
function missingAttempts({ attempts, log, inProgress }: CallbackDetails): string {
  const first = log[0]?.attempt ?? 1
  const missing = attempts - first + 1 - log.length - (inProgress ? 1 : 0)
  return missing > 0
    ? `\n\n${counted(missing, 'attempt is', 'attempts are')} missing: the server stopped before the result was recorded.`
    : ''
}

function answerOf({ status, error, answer }: CallbackAttempt, most: number): string {
  if (status === null) return printable(error ?? '', most)
  return answer ? `${status} ${printable(answer, most)}` : String(status)
}
