/** Files in the reference store. */
import { ABANDONED_MS, type AboutFile, type NewFile, type StoredFile } from '../../../src/store/file-store.ts'
import { WriteRejected } from '../../../src/store/store.ts'
import type { FileRow, MemoryDatabase } from './database.ts'

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
  return {
    beginFile(file: NewFile, maxFiles: number): boolean {
      if (filesOf(file.account).length >= maxFiles) return false
      if (db.files.has(file.id)) throw new WriteRejected('the file exists')
      const removeAtMs = file.createdAtMs + ABANDONED_MS
      db.files.set(file.id, { ...file, filename: '', purpose: '', pieces: [], isComplete: false, removeAtMs })
      return true
    },

    appendToFile(fileId: string, piece: number, content: Uint8Array, nowMs: number): boolean {
      const row = written(fileId)
      if (row === null) return false
      if (row.pieces.length > piece) throw new WriteRejected('the piece exists')
      row.pieces.push(content)
      row.removeAtMs = nowMs + ABANDONED_MS
      return true
    },

    completeFile(fileId: string, { filename, purpose, expiresAtMs }: AboutFile): StoredFile | null {
      const row = written(fileId)
      if (row === null || !db.accounts.has(row.account)) return null
      Object.assign(row, { isComplete: true, filename, purpose, removeAtMs: expiresAtMs })
      return viewOf(row)
    },

    findFile(account: string, fileId: string, nowMs: number): StoredFile | null {
      const row = db.files.get(fileId)
      return row?.account === account && isReadable(row, nowMs) ? viewOf(row) : null
    },

    readPiece: (fileId: string, piece: number): Uint8Array | null =>
      db.files.get(fileId)?.pieces[piece] ?? null,

    deleteFilesOf(account: string): void {
      filesOf(account).forEach(remove)
    },

    purgeFiles(nowMs: number): boolean {
      const row = [...db.files.values()].find(({ removeAtMs }) => removeAtMs !== null && removeAtMs <= nowMs)
      if (row === undefined) return false
      return db.files.delete(row.id)
    },
  }
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
