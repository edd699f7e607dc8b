/** Writes a file piece by piece, within the account's quota of stored bytes. */
import type { Clock } from '../clock.ts'
import type { QuotaLimits, QuotaReached, Quotas } from '../queue/quotas.ts'
import {
  type AboutFile,
  type FileStore,
  type NewFile,
  PIECE_BYTES,
  type StoredFile,
} from '../store/file-store.ts'

/** `gone`: the file was deleted, for example with its account. */
export type Written = 'written' | 'gone' | QuotaReached

export interface FileWriterOptions {
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

  /** Writes the next piece; await it before the next call. After a piece that was not written, no other can be. */
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

  /** Completes the file, which makes it readable. */
  async complete(about: AboutFile): Promise<StoredFile | Exclude<Written, 'written'>> {
    const written = this.#filled > 0 ? await this.#append() : 'written'
    if (written !== 'written') return written
    return (await this.#options.store.completeFile(this.#file.id, about)) ?? 'gone'
  }

  /** Deletes what was written. If that fails, retention deletes it. */
  async abort(): Promise<void> {
    const { store, clock } = this.#options
    await store.deleteFile(this.#file.account, this.#file.id)
    while (await store.purgeFiles(clock.nowMs()));
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
