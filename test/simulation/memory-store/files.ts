/** Keeps files in the reference store. */
import { ABANDONED_MS, type StoredFile } from '../../../src/store/file-store.ts'
import { WriteRejected } from '../../../src/store/store.ts'
import type { FileRow, MemoryDatabase } from './database.ts'
import { define } from './operations.ts'

export function fileOperations(db: MemoryDatabase) {
  const filesOf = (account: string) => [...db.files.values()].filter((row) => row.account === account)
  const written = (fileId: string) => {
    const row = db.files.get(fileId)
    return row === undefined || row.isComplete || row.removeAtMs === 0 ? null : row
  }
  const remove = (row: FileRow) => {
    row.isComplete = false
    row.removeAtMs = 0
  }
  return define({
    beginFile(file, maxFiles) {
      if (filesOf(file.account).length >= maxFiles) return false
      if (db.files.has(file.id)) throw new WriteRejected('the file exists')
      const removeAtMs = file.createdAtMs + ABANDONED_MS
      db.files.set(file.id, { ...file, filename: '', purpose: '', pieces: [], isComplete: false, removeAtMs })
      return true
    },

    appendToFile(fileId, piece, content, nowMs) {
      const row = written(fileId)
      if (row === null) return false
      if (row.pieces.length > piece) throw new WriteRejected('the piece exists')
      row.pieces.push(content)
      row.removeAtMs = nowMs + ABANDONED_MS
      return true
    },

    completeFile(fileId, { filename, purpose, expiresAtMs }) {
      const row = written(fileId)
      if (row === null || !db.accounts.has(row.account)) return null
      Object.assign(row, { isComplete: true, filename, purpose, removeAtMs: expiresAtMs })
      return viewOf(row)
    },

    findFile(account, fileId, nowMs) {
      const row = db.files.get(fileId)
      return row?.account === account && isReadable(row, nowMs) ? viewOf(row) : null
    },

    readPiece: (fileId, piece) => db.files.get(fileId)?.pieces[piece] ?? null,

    deleteFilesOf(account) {
      filesOf(account).forEach(remove)
    },

    purgeFiles(nowMs) {
      const row = [...db.files.values()].find(({ removeAtMs }) => removeAtMs !== null && removeAtMs <= nowMs)
      if (row === undefined) return false
      return db.files.delete(row.id)
    },
  })
}

export function fileBytesOf(row: FileRow): number {
  return row.pieces.reduce((bytes, { length }) => bytes + length, 0)
}

function isReadable({ isComplete, removeAtMs }: FileRow, nowMs: number): boolean {
  return isComplete && (removeAtMs === null || removeAtMs > nowMs)
}

function viewOf(row: FileRow): StoredFile {
  const { id, account, filename, purpose, createdAtMs, removeAtMs } = row
  return { id, account, filename, purpose, bytes: fileBytesOf(row), createdAtMs, expiresAtMs: removeAtMs }
}
