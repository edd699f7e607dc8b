/** The thread of one scrub. SQLite rewrites the file in a single statement, and meanwhile the storage thread must answer reads. */
import { workerData } from 'node:worker_threads'
import { deletionOperations } from './delete.ts'
import { openFile } from './file.ts'
import { OpenFile } from './open-file.ts'

const db = openFile(String(workerData.path))
try {
  deletionOperations.scrub.run(new OpenFile(db))
} finally {
  db.close()
}
