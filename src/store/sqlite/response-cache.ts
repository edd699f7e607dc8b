/** Cached responses in SQLite. `response-index.ts` finds the row for a fingerprint. */
import { storedTextOf } from '../compressed-text.ts'
import type { Cell, OpenFile } from './open-file.ts'
import { read } from './operation.ts'
import { textOf } from './texts.ts'

export const responseCacheOperations = {
  findResponse: read((file: OpenFile, seq: number, fingerprint: string, nowMs: number): string | null => {
    const row = file.prepare(FIND_CACHED).get(seq, fingerprint, nowMs)
    return row ? storedTextOf(row, 'content') : null
  }),

  /** The entries after a row, as `[seq, fingerprint, until_ms]`, to build the index at the start. */
  listResponses: read((file: OpenFile, afterSeq: number, limit: number): Cell[][] =>
    file.cells(LIST, afterSeq, limit),
  ),
}

export const FIND_CACHED = `
  select ${textOf('o', 'content')} as content from kept_answers k join outcomes o on o.seq = k.seq
  where k.seq = ? and k.fingerprint = ? and k.until_ms > ?`
const LIST = 'select seq, fingerprint, until_ms from kept_answers where seq > ? order by seq limit ?'
