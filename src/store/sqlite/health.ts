/** Returns the length of the queue in a SQLite file, and checks whether the file accepts writes. */
import type { Depth } from '../store.ts'
import type { ServedFile } from './open-file.ts'
import { read, sheddableWrite } from './operation.ts'

export const healthOperations = {
  depth: read((file: ServedFile): Depth => {
    const { waiting, assigned } = file.queue
    const oldest = file.prepare(OLDEST).get()
    return { waiting, assigned, oldestCreatedAtMs: oldest ? Number(oldest.created_at_ms) : null }
  }),

  ping: sheddableWrite((file: ServedFile, nowMs: number): void => {
    file.prepare(PROBE).run(nowMs)
  }),
}

const OLDEST =
  'select created_at_ms from jobs indexed by jobs_by_age where turn is not null order by id limit 1'
const PROBE = 'update probe set at_ms = ?'
