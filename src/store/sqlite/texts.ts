/** Texts in SQLite that may be compressed: a column that holds one has bytes instead. */
import { decompressed } from '../compressed-text.ts'
import type { Cell } from './open-file.ts'

/** For shorter texts, the CPU time of compressing limits the rate sooner than the disk: 65 us for 10 KB. */
export const COMPRESS_FROM_BYTES = 32_768

/** Selects a text: the bytes of one that is compressed. */
export const textOf = (row: string, column: 'messages' | 'content') =>
  `coalesce(${row}.${column}_zstd, ${row}.${column})`

/** The cell with its text, so that the storage thread decompresses it and not the event loop. */
export function asText(cell: Cell | undefined): Cell {
  return decompressed(cell) ?? cell ?? null
}
