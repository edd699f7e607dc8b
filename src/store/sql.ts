/**
 * Lets both stores run the same SQL, with guarantees about values, statements and transactions.
 *
 * - Values never become part of the text: each is a parameter, and each store writes its own placeholders.
 * - SQL can contain other SQL. The text never depends on values, so a store can prepare a statement by its text.
 * - An operation is a generator that yields statements and receives their rows. SQLite runs it synchronously in the storage
 *   thread, Postgres on a connection.
 * - On SQLite, each `write` is part of a transaction that others may share. On Postgres, it has its own transaction.
 * - On Postgres, each statement of a `read` or `repeatableWrite` is a transaction of its own, and is repeated if the connection
 *   breaks.
 */
import type { Row } from './rows.ts'

export type Value = string | number | boolean | null | Uint8Array | readonly (string | number | null)[]

/** Values are between the texts, so there is one more text than values. */
export class Sql {
  readonly texts: readonly string[]
  readonly values: readonly Value[]

  constructor(texts: readonly string[], values: readonly Value[]) {
    this.texts = texts
    this.values = values
  }
}

export function sql(texts: readonly string[], ...parts: readonly (Value | Sql)[]): Sql {
  const all = [texts[0] ?? '']
  const values: Value[] = []
  parts.forEach((part, at) => {
    const piece = part instanceof Sql ? part : new Sql(['', ''], [part])
    const [first = '', ...others] = piece.texts
    all.push(all.pop() + first, ...others)
    all.push(all.pop() + (texts[at + 1] ?? ''))
    values.push(...piece.values)
  })
  return new Sql(all, values)
}

/** Inserts constant text, such as the name of a table or a number that the planner must see. Never pass input from outside. */
export function raw(text: string | number): Sql {
  return new Sql([String(text)], [])
}

export function join(pieces: readonly Sql[], separator: string): Sql {
  return pieces.reduce((all, piece, at) => (at === 0 ? piece : sql`${all}${raw(separator)}${piece}`), sql``)
}

/** Ignores undefined conditions. The result is true if there are no others. */
export function allOf(...conditions: readonly (Sql | undefined)[]): Sql {
  return join([sql`true`, ...conditions.filter((one) => one !== undefined)], ' and ')
}

export type Steps<Result> = Generator<Sql, Result, readonly Row[]>

export interface Operation<Args extends readonly unknown[], Result> {
  readonly kind: 'read' | 'write' | 'repeatable write'
  readonly steps: (...args: Args) => Steps<Result>
}

type Make = <Args extends readonly unknown[], Result>(
  steps: (...args: Args) => Steps<Result>,
) => Operation<Args, Result>

export const read: Make = (steps) => ({ kind: 'read', steps })
export const write: Make = (steps) => ({ kind: 'write', steps })
/**
 * On Postgres, each statement is repeated if its response was lost, so a second run must do no harm, and return a correct
 * result.
 */
export const repeatableWrite: Make = (steps) => ({ kind: 'repeatable write', steps })

export type Methods<Table> = {
  [Name in keyof Table]: Table[Name] extends Operation<infer Args, infer Result>
    ? (...args: Args) => Promise<Result>
    : never
}
