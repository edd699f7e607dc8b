/**
 * An operation of the SQLite store: a synchronous function of the open file. Each is declared once, in the file that is named
 * after it, and `operations.ts` gathers them.
 */
import type { OpenFile } from './open-file.ts'

export interface Operation<File, Args extends readonly unknown[], Result> {
  /** Writes run inside a transaction, many in one; reads run outside of any. */
  readonly kind: 'read' | 'write'
  /** Whether it may be rejected with `StoreUnavailable` because too many writes are queued. */
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

/** For the writes that accept work: the node rejects new work rather than queue without limit. */
export function sheddableWrite<File extends OpenFile, Args extends readonly unknown[], Result>(
  run: (file: File, ...args: Args) => Result,
): Operation<File, Args, Result> {
  return { kind: 'write', sheddable: true, run }
}
