/** Declares an operation of the SQLite store: a synchronous function of the open file. `operations.ts` lists all operations. */
import type { SQLOutputValue, StatementSync } from 'node:sqlite'
import type * as sql from '../sql.ts'
import type { Cell, OpenFile } from './open-file.ts'

export interface Operation<File, Args extends readonly unknown[], Result> {
  /** Several writes may share a transaction. Reads run outside of transactions. */
  readonly kind: 'read' | 'write'
  /** Whether the store may reject the operation with `StoreUnavailable` when too many writes are queued. */
  readonly sheddable: boolean
  readonly run: (file: File, ...args: Args) => Result
}

export function read<File extends OpenFile, Args extends readonly unknown[], Result>(
  run: (file: File, ...args: Args) => Result,
): Operation<File, Args, Result> {
  return { kind: 'read', sheddable: false, run }
}

export function write<File extends OpenFile, Args extends readonly unknown[], Result>(
  run: (file: File, ...args: Args) => Result,
): Operation<File, Args, Result> {
  return { kind: 'write', sheddable: false, run }
}

/** Use this for writes that accept work, so that an overloaded node rejects new work instead of queueing it without limit. */
export function sheddableWrite<File extends OpenFile, Args extends readonly unknown[], Result>(
  run: (file: File, ...args: Args) => Result,
): Operation<File, Args, Result> {
  return { kind: 'write', sheddable: true, run }
}

type OnFile<Table> = {
  [Name in keyof Table]: Table[Name] extends sql.Operation<infer Args, infer Result>
    ? Operation<OpenFile, Args, Result>
    : never
}

/** Turns operations whose SQL both stores share into operations on a file. */
export function onFile<Table extends Readonly<Record<string, sql.Operation<never, unknown>>>>(
  table: Table,
): OnFile<Table> {
  const operations = Object.entries(table).map(([name, { kind, steps }]) => {
    const run = (file: OpenFile, ...args: never) => runSteps(file, steps(...args))
    return [name, kind === 'read' ? read(run) : write(run)]
  })
  return Object.fromEntries(operations)
}

export function runSteps<Result>(file: OpenFile, steps: sql.Steps<Result>): Result {
  let next = steps.next()
  while (!next.done) {
    next = steps.next(rowsOf((text) => file.prepare(text), next.value))
  }
  return next.value
}

export function rowsOf(
  prepare: (text: string) => StatementSync,
  { texts, values }: sql.Sql,
): Record<string, SQLOutputValue>[] {
  return prepare(texts.join('?')).all(...values.map(cellOf))
}

function cellOf(value: sql.Value): Cell {
  if (typeof value === 'boolean') return value ? 1 : 0
  return Array.isArray(value) ? JSON.stringify(value) : (value as Cell)
}
