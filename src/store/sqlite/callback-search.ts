/** Searches callbacks in SQLite, for operators. */
import { readDetails, readSummary, URL_PREFIX } from '../callback-rows.ts'
import type { CallbackDetails, CallbackScan, CallbackState, CallbackSummary } from '../callback-store.ts'
import { AFTER_ALL, type Chunk } from '../pagination.ts'
import { numberOf, textOf } from '../rows.ts'
import type { OpenFile } from './open-file.ts'
import { read } from './operation.ts'

export const callbackSearchOperations = {
  /** Row numbers are assigned in the order of acceptance, as identifiers are. */
  scanCallbacks: read(
    (file: OpenFile, { state, account, beforeId, rows, enough }: CallbackScan): Chunk<CallbackSummary> => {
      const nothing = { scanned: 0, lastId: null, matches: [] }
      const before = beforeId === AFTER_ALL ? Number.MAX_SAFE_INTEGER : seqOf(file, beforeId)
      if (before === null) return nothing
      const chunk = file.prepare(state === 'failed' ? FAILED_CHUNK : CHUNK).get(before, rows) ?? {}
      const scanned = numberOf(chunk, 'scanned')
      if (scanned === 0) return nothing
      const last = numberOf(chunk, 'last')
      const matches = file.prepare(MATCHES[state ?? 'any']).all(last, before, account, enough)
      const lastRow = file.prepare('select job_id from callbacks where seq = ?').get(last) ?? {}
      return { scanned, lastId: textOf(lastRow, 'job_id'), matches: matches.map(readSummary) }
    },
  ),

  findCallback: read((file: OpenFile, jobId: string): CallbackDetails | null => {
    const row = file.prepare(FIND).get(jobId)
    return row ? readDetails(row) : null
  }),
}

function seqOf(file: OpenFile, jobId: string): number | null {
  const row = file.prepare('select seq from jobs where id = ?').get(jobId)
  return row ? numberOf(row, 'seq') : null
}

/** @param which condition that ends in `where` or `and` */
const chunk = (which: string) => `
  select count(*) as scanned, min(seq) as last from
    (select seq from callbacks ${which} seq < ? order by seq desc limit ?)`
const CHUNK = chunk('where')
const FAILED_CHUNK = chunk('indexed by callbacks_failed where failed_at_ms is not null and')

const COLUMNS = `c.job_id, c.account, c.attempt, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms, c.under_way, c.attempts,
  substr(r.callback, 1, ${URL_PREFIX}) as callback_prefix, j.status`
const FROM = 'from callbacks c join jobs j on j.id = c.job_id join requests r on r.seq = c.seq'

/** A search reads no payloads: they can be large, and there are many. */
const matches = (condition: string) => `
  select ${COLUMNS} ${FROM}
  where c.seq >= ?1 and c.seq < ?2 and (?3 is null or c.account = ?3) and ${condition}
  order by c.seq desc limit ?4`
const MATCHES: Readonly<Record<CallbackState | 'any', string>> = {
  any: matches('true'),
  owed: matches('c.due_at_ms is not null'),
  delivered: matches('c.delivered_at_ms is not null'),
  failed: matches('c.failed_at_ms is not null'),
}
const FIND = `select ${COLUMNS}, r.callback ${FROM} where j.id = ?`
