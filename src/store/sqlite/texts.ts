/** Compressible texts in SQLite: a compressed text is in a column of bytes. */
import { decompressed } from '../compressed-text.ts'
import type { Cell } from './open-file.ts'

/** For shorter texts, the CPU time of compression would limit throughput sooner than the disk: 65 us for 10 KB. */
export const COMPRESS_FROM_BYTES = 32_768

/** Selects a text, or its bytes if it is compressed. */
export const textOf = (row: string, column: 'messages' | 'content') =>
  `coalesce(${row}.${column}_zstd, ${row}.${column})`

/** Returns the cell as text, so that the storage thread decompresses it instead of the event loop. */
export function asText(cell: Cell | undefined): Cell {
  return decompressed(cell) ?? cell ?? null
}
