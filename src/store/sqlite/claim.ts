/** Claims queued jobs in SQLite: in fair order, or an account's first job each. */
import { wholeMs } from '../../clock.ts'
import type { ClaimedJob } from '../../job/job.ts'
import type { ClaimBounds, ClaimBytes, Claimed, PoisonCandidates } from '../store.ts'
import type { Cell, ServedFile } from './open-file.ts'
import { write } from './operation.ts'

/** Claimed jobs as they cross between threads: rows as `readClaimedJob` reads them. */
export interface ClaimedRows {
  readonly rows: Cell[][]
  readonly tooLarge: Claimed['tooLarge']
}

/** Accounts that one claim looks at beside those that it must not claim for and those that it claims for. */
const MAX_PASSED_OVER = 256
const NEVER = Number.MAX_SAFE_INTEGER
const NO_CANDIDATES: PoisonCandidates = { crashCount: NEVER, limit: 0, maxCrashCount: NEVER }
const UNBOUNDED: ClaimBytes = { small: Number.MAX_SAFE_INTEGER, max: 0 }

export const claimOperations = {
  claim: write(
    (file: ServedFile, node: string, limit: number, nowMs: number, bounds: ClaimBounds): ClaimedRows => {
      const { candidates = NO_CANDIDATES, bytes = UNBOUNDED, exceptOf, ofAccount } = bounds
      const taken = new Fitting(bytes)
      if (ofAccount !== undefined) takeFirstOf(file, ofAccount, candidates, taken)
      else if (exceptOf !== undefined) takeFirstOfAccounts(file, limit, candidates, new Set(exceptOf), taken)
      else takeHeadOfQueue(file, limit, candidates, taken)
      const { rows, tooLarge } = taken
      let furthest = 0
      for (const row of rows) {
        furthest = Math.max(furthest, finishRow(file, row))
        file.prepare(CLAIM).run(node, nowMs, row[0] ?? null)
      }
      // The turn of an account's first job is not how far the queue has been claimed.
      const isHead = exceptOf === undefined && ofAccount === undefined
      if (rows.length > 0) file.queue.claim(file, rows.length, isHead ? furthest : 0)
      return { rows, tooLarge }
    },
  ),
}

/** Takes rows as long as their bytes allow. */
class Fitting {
  readonly rows: Cell[][] = []
  tooLarge: Claimed['tooLarge'] = null
  readonly #small: number
  #left: number

  constructor({ small, max }: ClaimBytes) {
    this.#small = small
    this.#left = max
  }

  /** Whether the row was taken. */
  take(row: Cell[]): boolean {
    const bytes = Number(row[BYTES])
    if (bytes > this.#small) {
      if (bytes > this.#left) {
        this.tooLarge ??= { account: String(row[ACCOUNT]), bytes }
        return false
      }
      this.#left -= bytes
    }
    this.rows.push(row)
    return true
  }
}

function takeHeadOfQueue(
  file: ServedFile,
  limit: number,
  { crashCount, limit: most }: PoisonCandidates,
  taken: Fitting,
): void {
  const some = Math.min(limit, most)
  const first = some > 0 ? file.cells(POISON_CANDIDATES, crashCount, some) : []
  for (const row of first) if (!taken.take(row)) return
  for (const row of file.cells(HEAD_OF_QUEUE, crashCount, limit - first.length)) if (!taken.take(row)) return
}

/** Goes from account to account in a circle, from the one that such a claim ended at. */
function takeFirstOfAccounts(
  file: ServedFile,
  limit: number,
  candidates: PoisonCandidates,
  except: ReadonlySet<string>,
  taken: Fitting,
): void {
  const { queue } = file
  const startedAt = queue.accountCursor
  let hasWrapped = false
  for (let looked = 0; looked < except.size + MAX_PASSED_OVER && taken.rows.length < limit; looked++) {
    const [found] = file.cells(NEXT_ACCOUNT, queue.accountCursor)
    if (found === undefined) {
      if (hasWrapped) return
      hasWrapped = true
      queue.accountCursor = BEFORE_ALL_ACCOUNTS
      continue
    }
    const account = String(found[0])
    if (hasWrapped && account > startedAt) return
    queue.accountCursor = account
    if (!except.has(account)) takeFirstOf(file, account, candidates, taken)
  }
}

function takeFirstOf(
  file: ServedFile,
  account: string,
  { crashCount }: PoisonCandidates,
  taken: Fitting,
): void {
  const [row] = file.cells(FIRST_OF_ACCOUNT, account, crashCount)
  if (row !== undefined) taken.take(row)
}

const BEFORE_ALL_ACCOUNTS = ''

/** Reads the texts of a large job, and removes the columns that only the claim uses. Returns the turn. */
function finishRow(file: ServedFile, row: Cell[]): number {
  const [turn, seq] = row.splice(TURN).map(Number)
  if (row[MESSAGES] === null) row.splice(MESSAGES, 3, ...(file.cells(TEXTS, seq ?? 0)[0] ?? []))
  return turn ?? 0
}

/** Texts of jobs up to this size are read at once; those of larger ones only when they are claimed. */
const INLINE_BYTES = 16 * 1024
const [ACCOUNT, MESSAGES, TURN, BYTES] = [1, 9, 12, 14]
/** Of `octet_length` SQLite reads the head of the row only, however long the text is. */
const SIZE =
  'octet_length(r.messages) + octet_length(r.response_format) + ifnull(octet_length(r.callback), 0)'
const inline = (column: string) => `case when ${SIZE} <= ${INLINE_BYTES} then r.${column} end`

/** What a claim selects: first in the order that `readClaimedJob` takes it, and then what the claim itself uses. */
const COLUMNS = `j.id, j.account, j.tier, j.model, j.cache_ttl_s, j.input_tokens, j.created_at_ms, j.attempt, j.deaths,
  ${inline('messages')}, ${inline('response_format')}, ${inline('callback')}, j.turn, j.seq, ${SIZE}`

export function readClaimedJob(cells: readonly Cell[]): ClaimedJob {
  const [id, account, tier, model, ttlS, tokens, createdAtMs, attempt, deaths, messages, format, callback] =
    cells
  return {
    id: String(id),
    account: String(account),
    tier: String(tier),
    model: String(model),
    cacheTtlMs: wholeMs(Number(ttlS)),
    inputTokens: Number(tokens),
    createdAtMs: Number(createdAtMs),
    // The row was read before this claim counted.
    attempt: Number(attempt) + 1,
    crashCount: Number(deaths),
    messagesJson: String(messages),
    responseFormatJson: String(format),
    callbackJson: typeof callback === 'string' ? callback : null,
  }
}

const HEAD_OF_QUEUE = `
  select ${COLUMNS} from jobs j indexed by jobs_in_line join requests r on r.seq = j.seq
  where j.turn is not null and j.deaths < ? order by j.turn, j.id limit ?`
const POISON_CANDIDATES = `
  select ${COLUMNS} from jobs j indexed by jobs_that_died join requests r on r.seq = j.seq
  where j.turn is not null and j.deaths > 0 and j.deaths >= ? order by j.turn, j.id limit ?`
const NEXT_ACCOUNT = `
  select account from jobs indexed by jobs_waiting_by_account
  where turn is not null and account > ? order by account limit 1`
const FIRST_OF_ACCOUNT = `
  select ${COLUMNS} from jobs j indexed by jobs_waiting_by_account join requests r on r.seq = j.seq
  where j.turn is not null and j.account = ? and j.deaths < ? order by j.id limit 1`
const TEXTS = 'select messages, response_format, callback from requests where seq = ?'
const CLAIM = `
  update jobs set status = 'assigned', turn = null, node = ?, attempt = attempt + 1, claimed_at_ms = ?
  where id = ?`
