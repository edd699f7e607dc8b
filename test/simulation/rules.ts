/**
 * Checks the rules that must hold when all faults are over and nothing more happens: compares the service's records of every
 * job with the ledger.
 */
import { MAX_TRIES } from '../../src/upstreams/call-target.ts'
import { ROUNDS } from '../../src/upstreams/router.ts'
import type { KnownCrash, KnownJob, KnownRequest, Ledger } from './ledger.ts'
import type { CallbackRow, JobRow, MemoryDatabase } from './memory-store/database.ts'
import { type Action, CALLBACK_PAUSES_S, type JobManner, MODELS, type Plan, POISONS } from './plan.ts'

const GONE = 410
const COMPLETING: readonly JobManner[] = [
  'answer',
  'answer slowly',
  'wrong once',
  'wrong, then overloaded',
  'paid error once',
  'crash',
]

const WRONG: readonly JobManner[] = ['wrong', 'cut off']
const DEADLINE_RULE = 'a job ends by its deadline, and fails for it only then'
/** A job may end this long after its deadline: the database has delays, and a write may be retried. */
const DEADLINE_WITHIN_MS = 1000
/** The deadlines in a plan with one of these actions are not checked. */
const DELAYS: readonly Action['kind'][] = [
  'kill',
  'restart',
  'upgrade',
  'pause',
  'clock',
  'store',
  'store clock',
]
/** Jobs may have crashes because of these actions. */
const ENDS: readonly Action['kind'][] = ['kill', 'restart', 'upgrade', 'pause', 'store clock']

export interface Facts {
  readonly plan: Plan
  readonly ledger: Ledger
  readonly db: MemoryDatabase
  readonly hasEnded: (node: string) => boolean
}

export function checkRules(facts: Facts): void {
  const { ledger, db } = facts
  for (const job of ledger.jobs.values()) {
    const row = db.jobs.get(job.id)
    if (row === undefined) {
      if (job.isAccepted && !ledger.mayBeGone(job)) ledger.violate('no accepted job is lost', job.id)
      continue
    }
    if (row.outcome === null) ledger.violate('every accepted job ends', `${job.id} is ${row.status}`)
    else {
      checkOutcome(facts, job, row)
      checkDeadline(facts, job, row)
      checkUsageOf(facts, job, row)
    }
    if (row.callback !== null) checkCallback(facts, job, row.callback)
  }
  for (const request of ledger.requests) checkBatch(facts, request)
  checkKeys(facts)
  checkUsage(facts)
  checkCosts(facts)
}

function checkOutcome(facts: Facts, job: KnownJob, { outcome, job: stored }: JobRow): void {
  const { ledger } = facts
  const { tag, manner, model } = job.plan
  if (stored.account !== job.account)
    ledger.violate('accounts are isolated', `${job.id} is of ${stored.account}`)
  const counts = ledger.callsOf(job.account, tag)
  if (outcome?.contentJson) {
    if (!outcome.contentJson.includes(`answer to ${tag} for ${job.account}`)) {
      ledger.violate(
        'accounts are isolated',
        `${job.id} of ${job.account}, ${tag}, got ${outcome.contentJson}`,
      )
    }
    const mayComplete =
      COMPLETING.includes(manner) ||
      manner === 'reset' ||
      (WRONG.includes(manner) && job.plan.format === 'text')
    if (!mayComplete) ledger.violate('an outcome matches the answer', `${job.id} (${manner}) completed`)
  } else {
    const why = failureProblem(facts, job, outcome?.errorJson ?? '{}')
    if (why !== null) ledger.violate(why, `${job.id} (${manner}, ${model}) failed: ${outcome?.errorJson}`)
  }
  if (counts.jobs > 1) return
  const attempts = facts.db.jobs.get(job.id)?.attempt ?? 0
  const most = (attempts + 1) * ROUNDS * 2 * (MODELS[model]?.length ?? 1)
  if (counts.calls > most) ledger.violate('calls are bounded', `${job.id}: ${counts.calls} calls`)
}

/** A deadline holds to the second, unless processes, clocks or the database are disturbed. */
function checkDeadline(
  { plan, ledger, hasEnded }: Facts,
  job: KnownJob,
  { job: stored, settledAtMs }: JobRow,
): void {
  const { deadlineMs } = stored
  const isDisturbed = plan.actions.some(({ kind }) => DELAYS.includes(kind)) || ledger.disturbed.size > 0
  if (deadlineMs === undefined || isDisturbed || job.crashes.some(({ node }) => hasEnded(node))) return
  const lateMs = (settledAtMs ?? 0) - deadlineMs
  if (lateMs > DEADLINE_WITHIN_MS)
    ledger.violate(DEADLINE_RULE, `${job.id} ended ${lateMs} ms after its deadline`)
  const { jobs, firstAtMs } = ledger.callsOf(job.account, job.plan.tag)
  if (jobs === 1 && firstAtMs !== null && firstAtMs > deadlineMs + DEADLINE_WITHIN_MS)
    ledger.violate(DEADLINE_RULE, `${job.id} was called ${firstAtMs - deadlineMs} ms after its deadline`)
}

/** Returns the rule that the failure violates, or null if the job may fail in this way. */
function failureProblem(
  { plan, ledger, db, hasEnded }: Facts,
  job: KnownJob,
  errorJson: string,
): string | null {
  const { manner, tag, format } = job.plan
  const counts = ledger.callsOf(job.account, tag)
  const { code, message } = JSON.parse(errorJson) as { code: string; message: string }
  if (code === 'deadline_exceeded') {
    const { settledAtMs, job: stored } = db.jobs.get(job.id) ?? {}
    const isLate = stored?.deadlineMs !== undefined && (settledAtMs ?? 0) >= stored.deadlineMs
    return isLate || (stored?.deadlineMs !== undefined && hasClockJumps(plan)) ? null : DEADLINE_RULE
  }
  if (code === 'cancelled') return ledger.mayBeCancelled(job) ? null : 'only operators cancel'
  if (message.startsWith('The process that ran this job')) {
    const problem = blameProblem(ledger, job, plan.maxAttempts, hasEnded)
    if (problem !== null) return problem
    if (manner !== 'kill' && plan.maxAttempts > 1 && !mayBeBeside(plan))
      return 'only the job that kills its process ends'
    return job.crashes.filter(({ node }) => hasEnded(node)).length >= plan.maxAttempts
      ? null
      : 'a pause or a drain is not a crash'
  }
  if (message.startsWith('No model server was available')) {
    const { settledAtMs = 0, job: stored } = db.jobs.get(job.id) ?? {}
    const waitedMs = (settledAtMs ?? 0) - (stored?.createdAtMs ?? 0)
    return waitedMs >= plan.patienceMs || hasClockJumps(plan) ? null : 'an outage fails no job'
  }
  if (code === 'content_policy_violation') return manner === 'refuse' ? null : 'an outcome matches the answer'
  if (code === 'validation_error')
    return WRONG.includes(manner) && format !== 'text' ? null : 'an outcome matches the answer'
  if (code === 'internal_error') return manner === 'unstorable' ? null : 'an outcome matches the answer'
  if (manner === 'invalid' || isPoison(manner) || manner.startsWith('crash')) return null
  const isPatient = plan.patienceMs > 0
  // Calls that hang use up the time of the run. Without patience, waits for a slot do so, too.
  const isTooLate = message.startsWith('The job did not finish within its run timeout')
  if (isTooLate && (counts.blamed > 0 || !isPatient)) return null
  // Without patience, an outage also fails jobs, but only after as many tries as other failures need.
  const tries = isPatient ? counts.blamed : counts.calls
  return tries >= MAX_TRIES ? null : 'an outage fails no job'
}

function isPoison(manner: JobManner): boolean {
  return POISONS.some((one) => one === manner)
}

/**
 * Returns why the job's crashes do not justify its failure, or null if they do. The first crash always counts; a later crash
 * counts only if the job was executing. In the last crash, no other suspect may have been executing. If there is only one
 * crash, this applies to every other job.
 */
function blameProblem(
  ledger: Ledger,
  job: KnownJob,
  maxAttempts: number,
  hasEnded: (node: string) => boolean,
): string | null {
  const crashes = countedCrashes(job, hasEnded)
  const last = crashes.at(-1)
  if (last === undefined || crashes.length < maxAttempts)
    return 'no job fails for a crash in which it did not execute'
  const isShared = [...ledger.jobs.values()].some((other) => {
    const { account, plan } = other
    // Of identical jobs, it is unknown which one was called.
    if (other === job || ledger.callsOf(account, plan.tag).jobs > 1) return false
    const at = countedCrashes(other, hasEnded).findIndex(
      ({ node, atMs }) => node === last.node && atMs === last.atMs,
    )
    // A job without earlier crashes is no suspect, and may run next to suspects.
    return crashes.length > 1 ? at > 0 : at >= 0
  })
  return isShared ? 'no job fails for a crash that it shares with others' : null
}

function countedCrashes({ crashes }: KnownJob, hasEnded: (node: string) => boolean): readonly KnownCrash[] {
  return crashes
    .filter(({ node, isReverted }) => !isReverted && hasEnded(node))
    .filter(({ executed }, index) => index === 0 || executed)
}

/**
 * Returns whether a job may have its crashes without being their cause. Processes also end for other reasons, or because of
 * several jobs. A job that kills its process runs next to others until it is found among the suspects.
 */
function mayBeBeside({ actions }: Plan): boolean {
  const killers = actions.flatMap((action) =>
    action.kind === 'create' ? action.jobs.filter(({ manner }) => manner === 'kill') : [],
  )
  const ends = actions.some(({ kind }) => ENDS.includes(kind))
  return ends || killers.length > 1
}

function hasClockJumps({ actions }: Plan): boolean {
  return actions.some(({ kind }) => kind === 'clock')
}

function checkCallback({ ledger }: Facts, job: KnownJob, callback: CallbackRow): void {
  if (callback.dueAtMs !== null) ledger.violate('callbacks arrive', `that of ${job.id} is owed`)
  const wasDelivered = job.callbackAnswers.some((status) => status >= 200 && status < 300)
  if (callback.deliveredAtMs !== null && !wasDelivered) {
    ledger.violate('a callback counts as delivered only after delivery', `that of ${job.id} never arrived`)
  }
  if (callback.failedAtMs === null) return
  const isSpent = callback.tries >= CALLBACK_PAUSES_S.length
  if (!isSpent && !job.callbackAnswers.includes(GONE)) {
    ledger.violate('callbacks arrive', `that of ${job.id} failed after ${callback.tries} tries`)
  }
}

function isGone(ledger: Ledger, jobId: string): boolean {
  const job = ledger.jobs.get(jobId)
  return job !== undefined && (job.wasDeleted || ledger.mayBeGone(job))
}

function checkBatch({ ledger, db }: Facts, { attempts, isBatch }: KnownRequest): void {
  if (!isBatch) return
  for (const ids of attempts) {
    const kept = ids.filter((id) => !isGone(ledger, id))
    const stored = kept.filter((id) => db.jobs.has(id)).length
    if (stored > 0 && stored < kept.length) {
      ledger.violate('a batch is all or nothing', `${stored} of ${kept.length} jobs are stored`)
    }
  }
}

/** All responses to requests with one key must refer to the same jobs, as long as those jobs exist. */
function checkKeys({ ledger }: Facts): void {
  const answers = new Map<string, Set<string>>()
  for (const { account, key, answers: ids } of ledger.requests) {
    if (key === null || ids.length === 0 || ledger.deletedAccounts.has(account)) continue
    if (ids.some((id) => isGone(ledger, id))) continue
    const name = `${account} ${key}`
    const known = answers.get(name) ?? new Set()
    answers.set(name, known.add(ids.join(' ')))
    const createdMs = [...known].flatMap(
      (answer) => ledger.jobs.get(answer.split(' ')[0] ?? '')?.createdAtMs ?? [],
    )
    // Keys are stored at least as long as jobs.
    const apartMs = Math.max(...createdMs) - Math.min(...createdMs) + ledger.clockJumpsMs
    if (known.size > 1 && apartMs < ledger.retentionMs)
      ledger.violate('a key is accepted once', `${name}: ${[...known].join(', ')}`)
  }
}

/**
 * The process that received the answer continued, so no outage of the database, of model servers or of the network may lose
 * this usage.
 */
function checkUsageOf({ ledger }: Facts, job: KnownJob, { outcome }: JobRow): void {
  const { jobs, tokens, answered } = ledger.callsOf(job.account, job.plan.tag)
  const isKnown = job.isAccepted && jobs === 1 && outcome !== null && !ledger.mayBeCancelled(job)
  if (!isKnown || job.crashes.length > 0 || [...answered].some((id) => ledger.disturbed.has(id))) return
  const { input_tokens: input, output_tokens: output } = outcome.usage
  if (input + output !== tokens)
    ledger.violate(
      'the usage of a job is what model servers counted',
      `${job.id}: ${input + output} of ${tokens}`,
    )
}

const COSTS = 'jobs cost what their calls cost'

/**
 * Each token must cost a millionth, whatever is lost. A cancelled job may cost less than its tokens, and nothing if it was
 * queued.
 */
function checkCosts({ ledger, db }: Facts): void {
  for (const { job, outcome } of db.jobs.values()) {
    if (outcome === null || outcome.errorJson?.startsWith('{"code":"cancelled"')) continue
    const { input_tokens: input, output_tokens: output, cost } = outcome.usage
    if (cost !== input + output) ledger.violate(COSTS, `${job.id}: ${cost} for ${input + output} tokens`)
  }
  for (const { account, inputTokens, outputTokens, cost = 0 } of db.usage.values()) {
    const tokens = inputTokens + outputTokens
    const least = tokens - inputOfCancelled(ledger, account)
    if (cost < least || cost > tokens) ledger.violate(COSTS, `${account}: ${cost} for ${tokens} tokens`)
  }
}

/**
 * Returns the account's input tokens of cancelled calls. The sums of a deleted account are stored under another name, so any
 * deleted account may be meant.
 */
function inputOfCancelled({ inputOfCancelled, deletedAccounts }: Ledger, account: string): number {
  const own = inputOfCancelled.get(account)
  if (own !== undefined) return own
  return Math.max(0, ...[...deletedAccounts].map((name) => inputOfCancelled.get(name) ?? 0))
}

/** Usage must equal what model servers counted, minus what was lost. */
function checkUsage({ ledger, db }: Facts): void {
  const counted = new Map<string, number>()
  for (const [name, { tokens }] of ledger.calls) {
    const account = name.split(' ', 1)[0] ?? ''
    counted.set(account, (counted.get(account) ?? 0) + tokens)
  }
  const used = new Map<string, number>()
  for (const { account, inputTokens, outputTokens } of db.usage.values()) {
    used.set(account, (used.get(account) ?? 0) + inputTokens + outputTokens)
  }
  for (const [account, tokens] of counted) {
    if (ledger.deletedAccounts.has(account)) continue
    const stored = used.get(account) ?? 0
    const most = tokens + (ledger.inputOfCancelled.get(account) ?? 0)
    const isRight = ledger.mayLoseUsage ? stored <= most : stored === tokens
    if (!isRight)
      ledger.violate('usage is what model servers counted', `${account}: ${stored} of ${tokens} tokens`)
  }
}
