/** A SQLite file has one server: the lock on the file is its lease, and ends with the process. */
import type { Renewal } from '../node-store.ts'
import { numberOf, textOf } from '../rows.ts'
import type { ServedFile } from './open-file.ts'
import { read } from './operation.ts'

export const nodeOperations = {
  /** The lease was kept, or this process would not run. */
  renew: read((file: ServedFile, node: string): Renewal => {
    const rows = file.prepare(HELD).all(node)
    return {
      kept: true,
      held: rows.map((row) => ({ jobId: textOf(row, 'id'), attempt: numberOf(row, 'attempt') })),
    }
  }),

  leave: read((_file: ServedFile, _node: string): void => {}),
}

const HELD = 'select id, attempt from jobs indexed by jobs_held where node = ?'
