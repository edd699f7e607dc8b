/** What operators see and do of callbacks in a SQLite file. Synchronous; what it changes goes into a transaction. */
import type { DatabaseSync } from 'node:sqlite'
import { readDetails, readSummary, URL_PREFIX } from '../callback-rows.ts'
import type {
  CallbackDetails,
  CallbackScan,
  CallbackState,
  CallbackSummary,
  FailedFilter,
  Replay,
} from '../callback-store.ts'
import type { Expiry } from '../expiry.ts'
import { AFTER_ALL, type Chunk } from '../pagination.ts'

export class SqliteCallbackRecords {
  readonly #db: DatabaseSync

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  /** Row numbers are given in the order of acceptance, as ids are. */
  look({ state, account, beforeId, rows, enough }: CallbackScan): Chunk<CallbackSummary> {
    const nothing = { scanned: 0, lastId: null, matches: [] }
    const before = beforeId === AFTER_ALL ? Number.MAX_SAFE_INTEGER : this.#seqOf(beforeId)
    if (before === null) return nothing
    const which =
      state === 'failed' ? 'indexed by callbacks_failed where failed_at_ms is not null and' : 'where'
    const bound = this.#db
      .prepare(
        `select count(*) as looked, min(seq) as last from
           (select seq from callbacks ${which} seq < ? order by seq desc limit ?)`,
      )
      .get(before, rows)
    const looked = Number(bound?.looked)
    if (looked === 0) return nothing
    const last = Number(bound?.last)
    const found = this.#db
      .prepare(
        `${select('')} where c.seq >= ?1 and c.seq < ?2 and (?3 is null or c.account = ?3)
           and ${state ? IN_STATE[state] : 'true'} order by c.seq desc limit ?4`,
      )
      .all(last, before, account, enough)
    const lastId = this.#db.prepare('select job_id from callbacks where seq = ?').get(last)?.job_id
    return { scanned: looked, lastId: String(lastId), matches: found.map(readSummary) }
  }

  #seqOf(jobId: string): number | null {
    const row = this.#db.prepare('select seq from jobs where id = ?').get(jobId)
    return row ? Number(row.seq) : null
  }

  find(jobId: string): CallbackDetails | null {
    const row = this.#db.prepare(`${select('r.callback,')} where j.id = ?`).get(jobId)
    return row ? readDetails(row) : null
  }

  replay(jobId: string, expiry: Expiry): Replay {
    const { nowMs, retentionMs } = expiry
    const row = this.#db
      .prepare(
        `select c.under_way from jobs j join callbacks c on c.seq = j.seq
         where j.id = ?1 and (c.due_at_ms is not null or ${KEPT('?2', '?3')})`,
      )
      .get(jobId, nowMs, retentionMs)
    if (!row) return 'unknown'
    if (row.under_way) return 'in progress'
    this.#db
      .prepare(`update callbacks set ${ANEW} where seq = (select seq from jobs where id = ?2)`)
      .run(nowMs, jobId)
    return 'replayed'
  }

  replayFailed({ account, limit }: FailedFilter, { nowMs, retentionMs }: Expiry): number {
    const { changes } = this.#db
      .prepare(
        `update callbacks set ${ANEW} where seq in (
           select c.seq from callbacks c indexed by callbacks_failed join jobs j on j.id = c.job_id
           where c.failed_at_ms < ?1 and ${KEPT('?1', '?3')} and (?4 is null or c.account = ?4) order by c.seq limit ?2
         )`,
      )
      .run(nowMs, limit, retentionMs, account ?? null)
    return Number(changes)
  }
}

/** A search reads no payloads, which can be large, and are many. */
const select = (more: 'r.callback,' | '') => `
  select ${more} c.job_id, c.account, c.attempt, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms, c.under_way, c.attempts,
    substr(r.callback, 1, ${URL_PREFIX}) as callback_prefix, j.status
  from callbacks c join jobs j on j.id = c.job_id join requests r on r.seq = c.seq`

const IN_STATE: Readonly<Record<CallbackState, string>> = {
  owed: 'c.due_at_ms is not null',
  delivered: 'c.delivered_at_ms is not null',
  failed: 'c.failed_at_ms is not null',
}

/** Whether the job is still readable, as `expiresAtMs` has it. */
const KEPT = (nowMs: string, retentionMs: string) =>
  `j.settled_at_ms + max(${retentionMs}, j.cache_ttl_s * 1000) > ${nowMs}`

/** ?1 now. Among the retries, so that many of them hold up no new one. */
const ANEW = `node = null, due_at_ms = ?1, owed_since_ms = ?1, tries = 0, lane = 1, delivered_at_ms = null, failed_at_ms = null`
