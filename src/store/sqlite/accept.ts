/** Stores new jobs in SQLite. */
import {
  CACHE_HIT_RECEIPT_JSON,
  CACHE_HIT_USAGE,
  FREE_CACHE_HIT_USAGE,
} from '../../job/results-without-call.ts'
import { storedText } from '../compressed-text.ts'
import {
  type Accepted,
  type AnsweredJob,
  type Earlier,
  type Idempotency,
  type OverCostCap,
  UnknownAccount,
} from '../store.ts'
import { requestBytes } from '../stored-bytes.ts'
import { costOf } from './cost-caps.ts'
import { nextTurn } from './fair-order.ts'
import { insertInto, places, type ValuesOf } from './inserts.ts'
import type { ServedFile } from './open-file.ts'
import { read, sheddableWrite } from './operation.ts'
import { findCached } from './response-cache.ts'
import { storeOutcome } from './settle.ts'
import { COMPRESS_FROM_BYTES } from './texts.ts'

/** The event loop sends a new job to the storage thread as an array, because copying objects between threads costs more. */
export type NewJobCells = readonly [
  id: string,
  account: string,
  tier: string,
  model: string,
  handedOff: 0 | 1,
  step: number,
  cacheTtlS: number,
  inputTokens: number,
  createdAtMs: number,
  messages: string,
  responseFormat: string,
  callback: string | null,
  route: string,
  awaited: 0 | 1,
  cached: CachedAt | null,
  priority: string | null,
  deadlineMs: number | null,
  reserved: number | null,
]

/**
 * The row number identifies the job whose response was cached. That job may have been deleted since, so the fingerprint is
 * compared, too.
 */
export type CachedAt = readonly [fingerprint: string, seq: number]

export const acceptOperations = {
  accept: sheddableWrite(
    (
      file: ServedFile,
      node: string,
      nowMs: number,
      idempotency: Idempotency | null,
      jobs: readonly NewJobCells[],
      costCap: number | null,
    ): Accepted => {
      const rejected = costCap === null ? null : checkCost(file, nowMs, idempotency, jobs, costCap)
      if (rejected) return rejected
      const earlier = idempotency && rememberKey(file, idempotency, jobs, nowMs)
      if (earlier) return earlier
      const answered: AnsweredJob[] = []
      const nextTurns: NextTurns = new Map()
      for (const job of jobs) {
        const [jobId, , , , , , , , , , , , , awaited, cached] = job
        const contentJson = cached === null ? null : findCached(file, ...cached, nowMs)
        if (contentJson === null) storeJob(file, node, nowMs, job, nextTurns)
        else {
          storeAnswered(file, nowMs, job, contentJson)
          answered.push({ jobId, contentJson: awaited ? contentJson : null })
        }
      }
      return answered.length === 0 ? { kind: 'accepted' } : { kind: 'accepted', answered }
    },
  ),

  findEarlier: read(
    (file: ServedFile, account: string, idempotency: Idempotency, nowMs: number): Earlier | null =>
      findEarlier(file, account, idempotency, nowMs),
  ),
}

/**
 * Returns null if the account can pay for the jobs. Repeated requests cost nothing, nor do jobs that a cached response
 * completes.
 */
function checkCost(
  file: ServedFile,
  nowMs: number,
  idempotency: Idempotency | null,
  jobs: readonly NewJobCells[],
  cap: number,
): Earlier | OverCostCap | null {
  const [, account = ''] = jobs[0] ?? []
  const earlier = idempotency && findEarlier(file, account, idempotency, nowMs)
  if (earlier) return earlier
  let added = 0
  for (const job of jobs) {
    const [cached, reserved] = [job[14], job[17] ?? 0]
    if (cached === null || findCached(file, ...cached, nowMs) === null) added += reserved
  }
  if (added === 0) return null
  const used = costOf(file, account, nowMs)
  return used + added > cap ? { kind: 'over cost cap', used } : null
}

function storeAnswered(file: ServedFile, nowMs: number, job: NewJobCells, contentJson: string): void {
  const [jobId, account, tier, model, , , ttlS, tokens, createdAtMs, ...rest] = job
  const [messages, format, callback, , , , priority, deadlineMs, reserved] = rest
  const seq = file.queue.takeSeq()
  const owesCallback = callback !== null
  const hasCallback = owesCallback ? 1 : 0
  const times = [createdAtMs, createdAtMs, nowMs] as const
  const values = [jobId, seq, account, tier, model, 'completed', null, null, 1, ttlS, tokens] as const
  insertJob(file, [...values, hasCallback, ...times, '', priority, deadlineMs, reserved])
  insertRequest(file, seq, messages, format, callback)
  const bytes = requestBytes(messages, format, callback)
  const row = { seq, jobId, account, model, owesCallback, openJobs: 0, bytes, reserved: 0 } as const
  const usage = JSON.stringify(reserved === null ? CACHE_HIT_USAGE : FREE_CACHE_HIT_USAGE)
  storeOutcome(file, row, ['completed', contentJson, null, usage, CACHE_HIT_RECEIPT_JSON, null, 0, nowMs])
}

/**
 * Stores the idempotency key of these jobs. Returns null if the caller must store the jobs, too. Otherwise returns the result
 * of the request, which repeats an earlier one or conflicts with it.
 */
function rememberKey(
  file: ServedFile,
  idempotency: Idempotency,
  jobs: readonly NewJobCells[],
  nowMs: number,
): Earlier | null {
  const { key, fingerprint, untilMs } = idempotency
  const account = jobs[0]?.[1] ?? ''
  const row = [account, key, fingerprint, JSON.stringify(jobs.map(([id]) => id)), untilMs] as const
  // Nearly every key is new, so most requests need only this statement.
  if (file.prepare(INSERT_KEY).run(...row).changes > 0) return null
  const earlier = findEarlier(file, account, idempotency, nowMs)
  if (earlier === null) file.prepare(REPLACE_KEY).run(...row)
  return earlier
}

function findEarlier(
  file: ServedFile,
  account: string,
  { key, fingerprint }: Idempotency,
  nowMs: number,
): Earlier | null {
  const earlier = file.prepare(FIND_KEY).get(account, key)
  if (!earlier || Number(earlier.until_ms) <= nowMs) return null
  if (earlier.fingerprint !== fingerprint) return { kind: 'conflict' }
  const jobIds: string[] = JSON.parse(String(earlier.job_ids))
  // If no job of the earlier request exists any longer, the request may create them again. If some exist, those would run
  // twice.
  return jobIds.some((id) => file.prepare(EXISTS).get(id)) ? { kind: 'repeated', jobIds } : null
}

/** Jobs of a batch follow each other, so the turn of the first job on a route determines the turns of the others. */
type NextTurns = Map<string, number>

function storeJob(
  file: ServedFile,
  node: string,
  nowMs: number,
  job: NewJobCells,
  nextTurns: NextTurns,
): void {
  const [id, account, tier, model, handedOff, step, ttlS, tokens, createdAtMs, ...rest] = job
  const [messages, format, callback, route, , , priority, deadlineMs, reserved] = rest
  const { queue } = file
  const seq = queue.takeSeq()
  const hasCallback = callback === null ? 0 : 1
  if (handedOff) {
    const times = [createdAtMs, nowMs, null] as const
    const values = [id, seq, account, tier, model, 'assigned', null, node, 1, ttlS, tokens] as const
    insertJob(file, [...values, hasCallback, ...times, route, priority, deadlineMs, reserved])
    queue.handOff()
  } else {
    const turn = nextTurns.get(route) ?? nextTurn(file, account, route, step)
    nextTurns.set(route, turn + step)
    file.places.joined(route, turn)
    const times = [createdAtMs, null, null] as const
    const values = [id, seq, account, tier, model, 'pending', turn, null, 0, ttlS, tokens] as const
    insertJob(file, [...values, hasCallback, ...times, route, priority, deadlineMs, reserved])
    queue.join()
  }
  insertRequest(file, seq, messages, format, callback)
  file.quotas.add(account, 1, requestBytes(messages, format, callback), reserved ?? 0)
}

function insertJob(file: ServedFile, values: ValuesOf<typeof JOB_COLUMNS>): void {
  if (file.prepare(INSERT_JOB).run(...values).changes === 0) throw new UnknownAccount()
}

function insertRequest(
  file: ServedFile,
  seq: number,
  messages: string,
  format: string,
  callback: string | null,
): void {
  const { plain, compressed, bytes } = storedText(messages, COMPRESS_FROM_BYTES)
  const values: ValuesOf<typeof REQUEST_COLUMNS> = [seq, plain ?? '', format, callback, compressed, bytes]
  file.prepare(INSERT_REQUEST).run(...values)
}

const JOB_COLUMNS = [
  ...(['id', 'seq', 'account', 'tier', 'model', 'status', 'turn', 'node', 'attempt', 'cache_ttl_s'] as const),
  ...(['input_tokens', 'has_callback', 'created_at_ms', 'claimed_at_ms', 'settled_at_ms', 'route'] as const),
  ...(['priority', 'deadline_ms', 'reserved'] as const),
] as const
const REQUEST_COLUMNS = [
  ...(['seq', 'messages', 'response_format', 'callback', 'messages_zstd', 'messages_bytes'] as const),
] as const
/** The insert changes no row if the account does not exist. */
const INSERT_JOB = `
  insert into jobs (${JOB_COLUMNS.join(', ')}, deaths)
  select ${places(JOB_COLUMNS)}, 0 from accounts where name = ?${JOB_COLUMNS.indexOf('account') + 1}`
const INSERT_REQUEST = insertInto('requests', REQUEST_COLUMNS)
const FIND_KEY = 'select fingerprint, job_ids, until_ms from idempotency where account = ? and key = ?'
const insertKey = (otherwise: string) =>
  `insert or ${otherwise} into idempotency (account, key, fingerprint, job_ids, until_ms) values (?, ?, ?, ?, ?)`
const INSERT_KEY = insertKey('ignore')
const REPLACE_KEY = insertKey('replace')
const EXISTS = 'select 1 from jobs where id = ?'
