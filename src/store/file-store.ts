/**
 * Files of accounts: the part of the storage contract behind `/v1/files`. Content is stored in pieces, so that writing or
 * reading a file needs memory for only a few of them. Only complete files can be read and listed.
 */

/** In an uploaded file, all pieces but the last have this size. No piece is larger. */
export const PIECE_BYTES = 256 * 1024

/** In a file that a batch wrote, only the last piece may be smaller. */
export const LEAST_PIECE_BYTES = 32 * 1024

/** `purgeFiles` deletes an upload that got no piece for this long, because it was abandoned or its node has crashed. */
export const ABANDONED_MS = 600_000

export interface FileStore {
  /**
   * Returns false and stores nothing if the account already has `maxFiles` files. Unfinished files count, and so do deleted
   * files whose content still exists. A second call with the same ID stores nothing.
   */
  beginFile(file: NewFile, maxFiles: number): Promise<boolean>

  /**
   * Returns false and stores nothing if the file is complete or was deleted. The first piece has the number 0. A second call
   * with the same number stores nothing.
   */
  appendToFile(fileId: string, piece: number, content: Uint8Array, nowMs: number): Promise<boolean>

  /** Returns null if the file is already complete, or if it or its account no longer exists. */
  completeFile(fileId: string, about: AboutFile): Promise<StoredFile | null>

  /** Returns null if the file does not exist, is incomplete, belongs to another account, or has expired. */
  findFile(account: string, fileId: string, nowMs: number): Promise<StoredFile | null>

  listFiles(search: FileSearch): Promise<StoredFile[]>

  /** Returns null after the last piece, and for pieces that `purgeFiles` has deleted. */
  readPiece(fileId: string, piece: number): Promise<Uint8Array | null>

  /** Makes the file unreadable. `purgeFiles` deletes its content later. Returns whether the account had this file. */
  deleteFile(account: string, fileId: string): Promise<boolean>

  deleteFilesOf(account: string): Promise<void>

  /**
   * Deletes some content of a deleted, expired or abandoned file. Returns whether there may be more. The bytes of a file count
   * until all of its content is deleted.
   */
  purgeFiles(nowMs: number): Promise<boolean>
}

export interface NewFile {
  /** The ID is a UUIDv7, so IDs sort by time. */
  readonly id: string
  readonly account: string
  readonly createdAtMs: number
}

export interface AboutFile {
  readonly filename: string
  readonly purpose: string
  readonly expiresAtMs: number | null
}

export interface StoredFile extends NewFile, AboutFile {
  readonly bytes: number
}

export interface FileSearch {
  readonly account: string
  readonly purpose?: string
  readonly afterFileId?: string
  readonly newestFirst: boolean
  readonly limit: number
  readonly nowMs: number
}
