/** Reads typed columns of database rows. An unexpected type throws an error that names the column. */
export type Row = Readonly<Record<string, unknown>>

export function textOf(row: Row, column: string): string {
  const value = row[column]
  return typeof value === 'string' ? value : wrongType(column, 'text', value)
}

export function textOrNull(row: Row, column: string): string | null {
  const value = row[column]
  return value === null || typeof value === 'string' ? value : wrongType(column, 'text or null', value)
}

/** Postgres returns sums of bigints as decimal text. */
export function numberOf(row: Row, column: string): number {
  const value = row[column]
  if (typeof value === 'number') return value
  const number =
    typeof value === 'bigint' || (typeof value === 'string' && value !== '') ? Number(value) : NaN
  return Number.isNaN(number) ? wrongType(column, 'a number', value) : number
}

export function numberOrNull(row: Row, column: string): number | null {
  return row[column] === null ? null : numberOf(row, column)
}

/** SQLite has no booleans, so it returns 0 or 1. */
export function booleanOf(row: Row, column: string): boolean {
  const value = row[column]
  if (typeof value === 'boolean') return value
  return value === 0 || value === 1 ? value === 1 : wrongType(column, 'a boolean', value)
}

export function bytesOf(row: Row, column: string): Uint8Array {
  const value = row[column]
  return value instanceof Uint8Array ? value : wrongType(column, 'bytes', value)
}

export function bytesOrNull(row: Row, column: string): Uint8Array | null {
  return row[column] === null ? null : bytesOf(row, column)
}

export function oneOf<const Value extends string>(row: Row, column: string, values: readonly Value[]): Value {
  const value = row[column]
  return values.find((one) => one === value) ?? wrongType(column, `one of ${values.join(', ')}`, value)
}

function wrongType(column: string, expected: string, value: unknown): never {
  const type = value === null || value === undefined ? String(value) : typeof value
  throw new Error(`the column ${column} does not hold ${expected} (it holds ${type})`)
}
