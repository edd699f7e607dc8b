/** Creates, reads and deletes files of accounts, with at most a few pieces of each in memory. */
import type { Clock } from '../clock.ts'
import type { Tier } from '../job/tier.ts'
import type { QuotaLimits, Quotas } from '../queue/quotas.ts'
import { type FileSearch, type FileStore, LEAST_PIECE_BYTES, type StoredFile } from '../store/file-store.ts'
import { FileWriter } from './file-writer.ts'

/** The owner of a file, and the limits that apply. */
export interface FileOwner {
  readonly account: string
  readonly tier: Pick<Tier, 'maxFiles'>
  readonly quotas: QuotaLimits | null
}

export interface FilesOptions {
  readonly store: FileStore
  readonly quotas: Pick<Quotas, 'reserve' | 'end'>
  readonly clock: Clock
  readonly makeId: () => string
}

/** One step of a purge deletes at least this much of a file. */
const PURGED_BYTES = 16 * LEAST_PIECE_BYTES

export class Files {
  readonly #options: FilesOptions

  constructor(options: FilesOptions) {
    this.#options = options
  }

  /** Returns null if the account has as many files as its tier allows. */
  async begin(owner: FileOwner): Promise<FileWriter | null> {
    const { store, clock, makeId } = this.#options
    const file = { id: makeId(), account: owner.account, createdAtMs: clock.nowMs() }
    const begun = await store.beginFile(file, owner.tier.maxFiles)
    return begun ? new FileWriter(file, owner.quotas, this.#options) : null
  }

  list(search: Omit<FileSearch, 'nowMs'>): Promise<StoredFile[]> {
    return this.#options.store.listFiles({ ...search, nowMs: this.#options.clock.nowMs() })
  }

  find(account: string, fileId: string): Promise<StoredFile | null> {
    return this.#options.store.findFile(account, fileId, this.#options.clock.nowMs())
  }

  /** Rejects if the file is deleted during the read. */
  async *read({ id, bytes }: StoredFile): AsyncGenerator<Uint8Array> {
    for (let at = 0, left = bytes; left > 0; at++) {
      const piece = await this.#options.store.readPiece(id, at)
      if (piece === null) throw new Error('the file was deleted while it was read')
      left -= piece.length
      yield piece
    }
  }

  /**
   * Returns whether the account had the file. The content is deleted before this resolves, unless a purge has much else to
   * delete.
   */
  async delete(account: string, fileId: string): Promise<boolean> {
    const { store, clock } = this.#options
    const file = await this.find(account, fileId)
    if (file === null || !(await store.deleteFile(account, fileId))) return false
    for (let left = file.bytes; left >= 0; left -= PURGED_BYTES) {
      if (!(await store.purgeFiles(clock.nowMs()))) break
    }
    return true
  }
}
