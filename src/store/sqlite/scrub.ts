/** Removes deleted data from the disk in SQLite. */
import type { OpenFile } from './open-file.ts'
import { read } from './operation.ts'

export const scrubOperations = {
  /**
   * Rewrites the file without free pages, and empties the write-ahead log, which still contains them. This is declared as a
   * read, because it cannot run in a transaction. Throws if another process keeps reading the file.
   */
  scrub: read(({ db }: OpenFile): void => {
    // Uses a temporary file, because the copy is as large as the database and might not fit into memory.
    db.exec('pragma temp_store = file; vacuum; pragma temp_store = memory')
    const row = db.prepare('pragma wal_checkpoint(truncate)').get()
    if (row?.busy !== 0)
      throw new Error('another process reads the database, so its log could not be emptied')
  }),
}
