/** Returns the jobs and callbacks of other nodes in SQLite. Only one server uses the file, so every other node is dead. */
import type { ServedFile } from './open-file.ts'
import { write } from './operation.ts'

export const rescueOperations = {
  rescue: write((file: ServedFile, node: string, nowMs: number): number => {
    file.prepare(RESCUE_CALLBACKS).run(nowMs, node)
    const jobs = Number(file.prepare(RESCUE_JOBS).run(file.fairOrder.turn, node).changes)
    file.queue.return(jobs)
    return jobs
  }),
}

const RESCUE_CALLBACKS = `
  update callbacks indexed by callbacks_due set node = null, under_way = 0, due_at_ms = min(due_at_ms, ?)
  where due_at_ms is not null and node is not null and node <> ?`
const RESCUE_JOBS = `
  update jobs indexed by jobs_held set node = null, turn = ?, deaths = deaths + 1
  where node is not null and node <> ?`
