/**
 * The thread of one scrub. SQLite rewrites the file in a single statement, and the storage thread must answer reads during that
 * time.
 */
import { workerData } from 'node:worker_threads'
import { OpenFile } from './open-file.ts'
import { openFile } from './opening.ts'
import { scrubOperations } from './scrub.ts'

/** Longer than for other writes, because a busy server leaves little time between its writes. */
const BUSY_TIMEOUT_MS = 30_000

const db = openFile(String(workerData.path))
try {
  db.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`)
  scrubOperations.scrub.run(new OpenFile(db))
} finally {
  db.close()
}
