/**
 * Declares the operations of the SQLite store: synchronous functions of the open file. Files such as accept.ts contain them,
 * and operations.ts collects them.
 */
import type { SQLOutputValue, StatementSync } from 'node:sqlite'
import type * as sql from '../sql.ts'
import type { Cell, OpenFile } from './open-file.ts'

export interface Operation<File, Args extends readonly unknown[], Result> {
  /** Many writes may share a transaction; reads run outside of transactions. */
  readonly kind: 'read' | 'write'
  /** Whether it may be rejected with `StoreUnavailable` when too many writes are queued. */
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

/** For writes that accept work: a node rejects new work instead of queueing it without limit. */
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

/** Turns operations with the SQL of both stores into operations on a file. */
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

/** Runs a statement with SQL that both stores share. */
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
