/**
 * Columns of texts as parameters: large ones in Postgres' binary form, because escaping each quote in them would block the
 * event loop.
 */

/** Fewer characters than this are escaped in less than a millisecond. */
const LARGE = 65_536

/** The numbers of types in Postgres. */
const OIDS = { bytea: 17, text: 25 }

/** What the driver takes for a parameter of type text[]. 10 MB of JSON would take it 200 ms as an array. */
export function textArray(values: readonly (string | null)[]): readonly (string | null)[] | Buffer {
  const characters = values.reduce((sum, value) => sum + (value?.length ?? 0), 0)
  return characters < LARGE ? values : binaryArray(values, 'text')
}

/** Whether there is a large one among the columns: then the driver's copying of it deserves a turn of its own on the event loop. */
export function hasLarge(columns: readonly unknown[]): boolean {
  return columns.some((column) => Buffer.isBuffer(column) && column.length > LARGE)
}

/** One dimension, beginning at 1: the length of each element and its bytes; -1 stands for null. */
export function binaryArray(
  values: readonly (string | Uint8Array | null)[],
  type: keyof typeof OIDS,
): Buffer {
  const lengths = values.map((value) => (value === null ? -1 : Buffer.byteLength(value)))
  const bytes = lengths.reduce((sum, length) => sum + 4 + Math.max(0, length), 20)
  const buffer = Buffer.allocUnsafe(bytes)
  let at = 0
  for (const header of [1, lengths.includes(-1) ? 1 : 0, OIDS[type], values.length, 1]) {
    at = buffer.writeInt32BE(header, at)
  }
  for (const [index, value] of values.entries()) {
    at = buffer.writeInt32BE(lengths[index] ?? -1, at)
    if (typeof value === 'string') at += buffer.write(value, at)
    else if (value !== null) {
      buffer.set(value, at)
      at += value.length
    }
  }
  return buffer
}
