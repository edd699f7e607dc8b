/** Compresses long texts in SQLite. A compressed text is in a separate column, named `_zstd`. */
import { decompressed } from '../compressed-text.ts'
import type { Cell } from './open-file.ts'

/**
 * Texts from this size on are compressed. For shorter texts, the CPU time (65 µs for 10 KB) would limit throughput before the
 * disk does.
 */
export const COMPRESS_FROM_BYTES = 32_768

/** Returns the SQL for a text, or for its bytes if the text is compressed. */
export const textOf = (row: string, column: 'messages' | 'content') =>
  `coalesce(${row}.${column}_zstd, ${row}.${column})`

/**
 * Returns the cell as text. Call this on the storage thread, so that the event loop does not spend its time on decompression.
 */
export function asText(cell: Cell | undefined): Cell {
  return decompressed(cell) ?? cell ?? null
}
