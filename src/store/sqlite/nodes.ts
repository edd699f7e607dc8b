/**
 * Leases on SQLite. The lock on the file, which ends with the process, is the lease of its only server. A restart proves that
 * the previous process has ended, so every crash is confirmed at once and none is reverted.
 */
import type { Claim } from '../node-store.ts'
import { numberOf, textOf } from '../rows.ts'
import type { ServedFile } from './open-file.ts'
import { read } from './operation.ts'

export const nodeOperations = {
  /** The lease is valid, because this process could not run without the lock. */
  renew: read((_file: ServedFile, _node: string): boolean => true),

  claimsOf: read((file: ServedFile, node: string): Claim[] =>
    file
      .prepare(CLAIMS)
      .all(node)
      .map((row) => ({ jobId: textOf(row, 'id'), attempt: numberOf(row, 'attempt') })),
  ),

  leave: read((_file: ServedFile, _node: string): void => {}),

  revertCrashes: read((_file: ServedFile): number => 0),

  absentNodes: read((_file: ServedFile): string[] => []),

  confirmCrashes: read((_file: ServedFile, _nodes: readonly string[], _absentMs: number): void => {}),
}

const CLAIMS = 'select id, attempt from jobs indexed by jobs_held where node = ?'
