/** Compressible texts in SQLite: a compressed text is in a column of bytes. */
import { decompressed } from '../compressed-text.ts'
import type { Cell } from './open-file.ts'

/**
 * The size from which texts are compressed. For shorter texts, the CPU time (65 µs for 10 KB) would limit throughput before the
 * disk does.
 */
export const COMPRESS_FROM_BYTES = 32_768

/** Selects a text, or its bytes if it is compressed. */
export const textOf = (row: string, column: 'messages' | 'content') =>
  `coalesce(${row}.${column}_zstd, ${row}.${column})`

/** Returns the cell as text. The storage thread calls this, so that the event loop need not decompress it. */
export function asText(cell: Cell | undefined): Cell {
  return decompressed(cell) ?? cell ?? null
}
