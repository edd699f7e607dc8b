/** Inserts with one value for each column. The compiler counts the values, because SQLite binds null for a missing one. */
export type ValuesOf<Columns extends readonly string[]> = {
  readonly [at in keyof Columns]: string | number | null | Uint8Array
}

/** The result is, for example, `?1, ?2`. */
export function places(columns: readonly string[]): string {
  return columns.map((_, at) => `?${at + 1}`).join(', ')
}

export function insertInto(table: string, columns: readonly string[]): string {
  return `insert into ${table} (${columns.join(', ')}) values (${places(columns)})`
}
