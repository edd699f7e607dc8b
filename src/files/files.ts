/** Creates, reads and deletes files of accounts, with at most a few pieces of a file in memory. */
import type { Clock } from '../clock.ts'
import type { Tier } from '../job/tier.ts'
import type { QuotaLimits, QuotaReached, Quotas } from '../queue/quotas.ts'
import {
  type AboutFile,
  type FileSearch,
  type FileStore,
  LEAST_PIECE_BYTES,
  type NewFile,
  PIECE_BYTES,
  type StoredFile,
} from '../store/file-store.ts'

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

const PURGED_BYTES = 16 * LEAST_PIECE_BYTES

export class Files {
  readonly #options: FilesOptions

  constructor(options: FilesOptions) {
    this.#options = options
  }

  /** Returns null if the account already has as many files as its tier allows. */
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

  /** Yields the content in pieces. Rejects if the file is deleted while it is read. */
  async *read({ id, bytes }: StoredFile): AsyncGenerator<Uint8Array> {
    for (let at = 0, left = bytes; left > 0; at++) {
      const piece = await this.#options.store.readPiece(id, at)
      if (piece === null) throw new Error('the file was deleted while it was read')
      left -= piece.length
      yield piece
    }
  }

  /**
   * Returns false if the account has no such file. If many files are being purged, the content is deleted after this resolves.
   */
  async delete(account: string, fileId: string): Promise<boolean> {
    const { store, clock } = this.#options
    const file = await this.find(account, fileId)
    if (file === null || !(await store.deleteFile(account, fileId))) return false
    await purge(store, clock, file.bytes)
    return true
  }
}

/** Purges about as many bytes as the file has. These may be bytes of files that were deleted earlier. */
async function purge(
  store: Pick<FileStore, 'purgeFiles'>,
  clock: Pick<Clock, 'nowMs'>,
  bytes: number,
): Promise<void> {
  for (let left = bytes; left >= 0; left -= PURGED_BYTES) {
    if (!(await store.purgeFiles(clock.nowMs()))) return
  }
}

/** `gone`: the file was deleted, for example with its account. */
export type Written = 'written' | 'gone' | QuotaReached

interface FileWriterOptions {
  readonly store: FileStore
  readonly quotas: Pick<Quotas, 'reserve' | 'end'>
  readonly clock: Pick<Clock, 'nowMs'>
}

export class FileWriter {
  readonly #file: NewFile
  readonly #limits: QuotaLimits | null
  readonly #options: FileWriterOptions
  readonly #buffer = Buffer.allocUnsafe(PIECE_BYTES)
  #filled = 0
  #pieces = 0

  constructor(file: NewFile, limits: QuotaLimits | null, options: FileWriterOptions) {
    this.#file = file
    this.#limits = limits
    this.#options = options
  }

  get createdAtMs(): number {
    return this.#file.createdAtMs
  }

  /** Writes the next bytes. Await each call before the next one. After any result but `written`, stop writing. */
  async write(bytes: Uint8Array): Promise<Written> {
    for (let at = 0; at < bytes.length; ) {
      const part = bytes.subarray(at, at + PIECE_BYTES - this.#filled)
      this.#buffer.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled < PIECE_BYTES) break
      const written = await this.#append()
      if (written !== 'written') return written
    }
    return 'written'
  }

  async complete(about: AboutFile): Promise<StoredFile | Exclude<Written, 'written'>> {
    const written = this.#filled > 0 ? await this.#append() : 'written'
    if (written !== 'written') return written
    return (await this.#options.store.completeFile(this.#file.id, about)) ?? 'gone'
  }

  /** Deletes what was written. If that fails, or if many files are being purged, retention deletes the rest. */
  async abort(): Promise<void> {
    const { store, clock } = this.#options
    await store.deleteFile(this.#file.account, this.#file.id)
    await purge(store, clock, this.#pieces * PIECE_BYTES)
  }

  async #append(): Promise<Written> {
    const { store, quotas, clock } = this.#options
    const { account, id } = this.#file
    const bytes = this.#filled
    const reached = this.#limits && (await quotas.reserve(account, this.#limits, 0, bytes))
    if (reached) return reached
    let stored = false
    try {
      stored = await store.appendToFile(id, this.#pieces, this.#buffer.subarray(0, bytes), clock.nowMs())
    } finally {
      if (this.#limits) quotas.end(account, 0, bytes, stored)
    }
    this.#pieces += 1
    this.#filled = 0
    return stored ? 'written' : 'gone'
  }
}
