/** Passes large columns of texts in Postgres' binary format, because escaping each quote would block the event loop. */

/** Escaping fewer characters than this takes less than a millisecond. */
const LARGE = 65_536

/** Type OIDs of Postgres. */
const OIDS = { bytea: 17, text: 25 }

/** Returns the parameter for the driver, of type text[]. Passing 10 MB of JSON as an array would take the driver 200 ms. */
export function textArray(values: readonly (string | null)[]): readonly (string | null)[] | Buffer {
  const characters = values.reduce((sum, value) => sum + (value?.length ?? 0), 0)
  return characters < LARGE ? values : binaryArray(values, 'text')
}

/** Whether a column is in binary format: copying it should get its own turn of the event loop. */
export function hasLarge(columns: readonly unknown[]): boolean {
  return columns.some((column) => Buffer.isBuffer(column) && column.length > LARGE)
}

/** Encodes a one-dimensional array with lower bound 1: for each element its length and bytes, or length -1 for null. */
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
