/**
 * Files of accounts: the part of the storage contract behind `/v1/files`. The content of a file is stored in pieces, so that neither
 * writing nor reading one takes more memory than a few of them. A file can be read, and is listed, only once it is complete.
 */

/** The maximum size of a piece, and in a file that was uploaded, the size of every piece but the last. */
export const PIECE_BYTES = 256 * 1024

/** The same in a file that a batch wrote, whose pieces differ: no piece but the last is smaller. */
export const LEAST_PIECE_BYTES = 32 * 1024

/** After this time without a new piece, an upload was abandoned or its node has crashed, and `purgeFiles` deletes it. */
export const ABANDONED_MS = 600_000

export interface FileStore {
  /**
   * Begins a file without content. Returns false, and stores nothing, if the account has `maxFiles` already, including those that are
   * being written or deleted. A second call with the same ID rejects.
   */
  beginFile(file: NewFile, maxFiles: number): Promise<boolean>

  /**
   * Adds the next piece; pieces are numbered from 0. Returns false, and stores nothing, if the file is complete or was deleted.
   * A second call with the same number rejects.
   */
  appendToFile(fileId: string, piece: number, content: Uint8Array, nowMs: number): Promise<boolean>

  /** Makes the file readable. Null if it does not exist any longer, or neither does its account. */
  completeFile(fileId: string, about: AboutFile): Promise<StoredFile | null>

  /** Null if it does not exist, is not complete, belongs to another account, or has expired. */
  findFile(account: string, fileId: string, nowMs: number): Promise<StoredFile | null>

  /** In the order of creation, or newest first. */
  listFiles(search: FileSearch): Promise<StoredFile[]>

  /** Null after the last piece, and if the file was deleted. */
  readPiece(fileId: string, piece: number): Promise<Uint8Array | null>

  /**
   * From now on the file cannot be read; `purgeFiles` deletes its content. Returns whether the account had such a file, complete or
   * not.
   */
  deleteFile(account: string, fileId: string): Promise<boolean>

  /** The same for all files of the account, also those that are being written. */
  deleteFilesOf(account: string): Promise<void>

  /**
   * Deletes a bounded part of what belongs to deleted, expired and abandoned files. Returns whether there may be more. Until
   * all of a file has been deleted, it counts with its bytes.
   */
  purgeFiles(nowMs: number): Promise<boolean>
}

export interface NewFile {
  /** UUIDv7: files lie in the order of time. */
  readonly id: string
  readonly account: string
  readonly createdAtMs: number
}

export interface AboutFile {
  readonly filename: string
  readonly purpose: string
  /** Null if it is kept until it is deleted. */
  readonly expiresAtMs: number | null
}

export interface StoredFile extends NewFile, AboutFile {
  readonly bytes: number
}

export interface FileSearch {
  readonly account: string
  readonly purpose?: string
  /** Only files after this one, the last of the previous page. */
  readonly afterFileId?: string
  readonly newestFirst: boolean
  readonly limit: number
  readonly nowMs: number
}
