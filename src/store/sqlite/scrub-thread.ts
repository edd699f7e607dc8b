/** The thread of one scrub. SQLite rewrites the file in a single statement, and meanwhile the storage thread must answer reads. */
import { workerData } from 'node:worker_threads'
import { deletionOperations } from './delete.ts'
import { openFile } from './file.ts'
import { OpenFile } from './open-file.ts'

/** Longer than for other writes, because those of a busy server leave little time between them. */
const BUSY_TIMEOUT_MS = 30_000

const db = openFile(String(workerData.path))
try {
  db.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`)
  deletionOperations.scrub.run(new OpenFile(db))
} finally {
  db.close()
}
