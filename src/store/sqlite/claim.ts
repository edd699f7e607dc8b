/** Claims queued jobs in SQLite, in fair order. */
import { wholeMs } from '../../clock.ts'
import type { Callback, ClaimedJob, Message, ResponseFormat } from '../../job/job.ts'
import type { PoisonCandidates } from '../store.ts'
import type { Cell, ServedFile } from './open-file.ts'
import { write } from './operation.ts'

export const claimOperations = {
  /** Returns rows as `readClaimedJob` reads them. */
  claim: write(
    (
      file: ServedFile,
      node: string,
      limit: number,
      nowMs: number,
      candidates: PoisonCandidates | null,
    ): Cell[][] => {
      const rows = headOfQueue(file, limit, candidates)
      if (rows.length === 0) return rows
      const claim = file.prepare(CLAIM)
      let furthest = 0
      for (const row of rows) {
        furthest = Math.max(furthest, Number(row.pop()))
        claim.run(node, nowMs, row[0] ?? null)
      }
      file.queue.claim(file, rows.length, furthest)
      return rows
    },
  ),
}

function headOfQueue(file: ServedFile, limit: number, candidates: PoisonCandidates | null): Cell[][] {
  if (!candidates) return file.cells(HEAD_OF_QUEUE, Number.MAX_SAFE_INTEGER, limit)
  const { crashCount } = candidates
  const some = file.cells(POISON_CANDIDATES, crashCount, Math.min(limit, candidates.limit))
  return [...some, ...file.cells(HEAD_OF_QUEUE, crashCount, limit - some.length)]
}

/** What a claim selects, in the order that `readClaimedJob` takes it; and the turn, which the claim itself takes. */
const COLUMNS = `j.id, j.account, j.tier, j.model, j.cache_ttl_s, j.input_tokens, j.created_at_ms,
  j.attempt, j.deaths, r.messages, r.response_format, r.callback, j.turn`

export function readClaimedJob(cells: readonly Cell[]): ClaimedJob {
  const [id, account, tier, model, ttlS, tokens, createdAtMs, attempt, deaths, messages, format, callback] =
    cells
  const messagesJson = String(messages)
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
    messages: JSON.parse(messagesJson) as Message[],
    messagesJson,
    responseFormat: JSON.parse(String(format)) as ResponseFormat,
    callback: typeof callback === 'string' ? (JSON.parse(callback) as Callback) : null,
  }
}

const HEAD_OF_QUEUE = `
  select ${COLUMNS} from jobs j indexed by jobs_in_line join requests r on r.seq = j.seq
  where j.turn is not null and j.deaths < ? order by j.turn, j.id limit ?`
const POISON_CANDIDATES = `
  select ${COLUMNS} from jobs j indexed by jobs_that_died join requests r on r.seq = j.seq
  where j.turn is not null and j.deaths > 0 and j.deaths >= ? order by j.turn, j.id limit ?`
const CLAIM = `
  update jobs set status = 'assigned', turn = null, node = ?, attempt = attempt + 1, claimed_at_ms = ?
  where id = ?`
