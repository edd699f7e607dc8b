/**
 * The thread of one scrub. SQLite rewrites the file in a single statement, and the storage thread must answer reads during that
 * time.
 */
import { workerData } from 'node:worker_threads'
import { deletionOperations } from './delete.ts'
import { openFile } from './file.ts'
import { OpenFile } from './open-file.ts'

/** Longer than for other writes, because a busy server leaves little time between its writes. */
const BUSY_TIMEOUT_MS = 30_000

const db = openFile(String(workerData.path))
try {
  db.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`)
  deletionOperations.scrub.run(new OpenFile(db))
} finally {
  db.close()
}
