/**
 * What a run of `parley batch` has done so far, in a file beside its output: lines of JSON that are only added to. A batch is
 * on the disk before it is sent, so after a crash it is known which batches the server may have, and they are found again by
 * their Idempotency-Keys. A last line that a crash has cut off is taken away.
 */
import {
  closeSync,
  fdatasyncSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { syncFolderOf } from '../../store/sync-folder.ts'
import { CommandError } from '../command-error.ts'
import type { Row, RowStatus } from './row.ts'

/** What must be the same for a run to be gone on with. */
export interface RunHeader {
  readonly url: string
  readonly account: string
  readonly input_sha256: string
  /** How lines become jobs. */
  readonly reading: string
}

interface FirstRecord extends RunHeader {
  readonly parley_batch: 1
  readonly run: string
}

/** A batch of which no answer is known. */
export interface Doubt {
  readonly jobs: readonly number[]
  /** Unix time in seconds. */
  readonly atS: number
}

interface KeptRow {
  readonly status: RowStatus
  readonly createdAtS: number | null
  readonly offset: number
  readonly bytes: number
}

type Told =
  | { readonly sending: readonly number[]; readonly at: number }
  | { readonly sent: readonly number[]; readonly job_ids: readonly string[] }
  | { readonly refused: readonly number[] }
  | { readonly ended: number; readonly status: RowStatus; readonly created_at: number | null }

const PIECE = 1 << 20
const LINE_END = 0x0a
const ROW = ',"row":'

export class Journal {
  readonly #path: string
  readonly #fd: number
  #closed = false
  #end = 0
  readonly #first: FirstRecord
  /** Where each job is, by its line's index: at the server under this id. */
  readonly jobIds = new Map<number, string>()
  readonly #rows = new Map<number, KeptRow>()
  readonly #counts = { completed: 0, failed: 0, invalid: 0, expired: 0 }
  readonly #doubts = new Map<number, Doubt>()

  private constructor(path: string, fd: number, first: FirstRecord) {
    this.#path = path
    this.#fd = fd
    this.#first = first
  }

  /** A new one, durable when this returns. */
  static create(path: string, run: string, header: RunHeader): Journal {
    const first = { parley_batch: 1, run, ...header } as const
    const journal = new Journal(path, openSync(path, 'w+', 0o600), first)
    journal.#write(JSON.stringify(first))
    fsyncSync(journal.#fd)
    syncFolderOf(path)
    return journal
  }

  /** Null where there is none, or one that a crash ended before it was begun. */
  static open(path: string): Journal | null {
    let fd: number
    try {
      fd = openSync(path, 'r+')
    } catch (error) {
      if ((error as { code?: string }).code === 'ENOENT') return null
      throw error
    }
    let journal: Journal | null = null
    let end = 0
    for (const { offset, text } of linesOf(fd)) {
      end = offset + Buffer.byteLength(text) + 1
      if (journal) journal.#take(text, offset)
      else journal = new Journal(path, fd, firstOf(text, path))
    }
    if (!journal) {
      closeSync(fd)
      return null
    }
    ftruncateSync(fd, end)
    journal.#end = end
    return journal
  }

  get run(): string {
    return this.#first.run
  }

  get header(): RunHeader {
    return this.#first
  }

  get doubts(): readonly Doubt[] {
    return [...this.#doubts.values()]
  }

  /** How many lines have come to each end. */
  get counts(): Readonly<Record<RowStatus, number>> {
    return this.#counts
  }

  get ended(): number {
    return this.#rows.size
  }

  hasEnded(index: number): boolean {
    return this.#rows.has(index)
  }

  /** Whether anything may be at the server. */
  get hasBegun(): boolean {
    return this.jobIds.size > 0 || this.#rows.size > 0 || this.#doubts.size > 0
  }

  isInDoubt(index: number): boolean {
    return this.doubts.some(({ jobs }) => jobs.includes(index))
  }

  /** The row as JSON text, and when its job was made. */
  row(index: number): { readonly text: string; readonly createdAtS: number | null } | null {
    const kept = this.#rows.get(index)
    if (!kept) return null
    const bytes = Buffer.alloc(kept.bytes)
    readSync(this.#fd, bytes, 0, kept.bytes, kept.offset)
    return { text: bytes.toString('utf8'), createdAtS: kept.createdAtS }
  }

  /** On the disk when this returns: the batch may be sent then. */
  sending(jobs: readonly number[], atS: number): void {
    this.#add({ sending: jobs, at: atS })
    fdatasyncSync(this.#fd)
  }

  sent(jobs: readonly number[], jobIds: readonly string[]): void {
    this.#add({ sent: jobs, job_ids: jobIds })
  }

  /** The server made none of them, and never will. */
  refused(jobs: readonly number[]): void {
    this.#add({ refused: jobs })
  }

  settle(index: number, row: Row, createdAtS: number | null): void {
    this.#add({ ended: index, status: row.status, created_at: createdAtS }, JSON.stringify(row))
  }

  /** Durable; it can be gone on with. A second call does nothing. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    fdatasyncSync(this.#fd)
    closeSync(this.#fd)
  }

  /** The run has ended. */
  remove(): void {
    this.close()
    unlinkSync(this.#path)
  }

  #add(told: Told, row?: string): void {
    const json = JSON.stringify(told)
    const text = row === undefined ? json : `${json.slice(0, -1)}${ROW}${row}}`
    const offset = this.#end
    this.#write(text)
    this.#apply(told, text, offset)
  }

  #take(text: string, offset: number): void {
    try {
      this.#apply(JSON.parse(text) as Told, text, offset)
    } catch (error) {
      throw new CommandError(
        `${this.#path} is damaged at byte ${offset}: ${(error as Error).message} --restart begins anew.`,
      )
    }
  }

  #apply(told: Told, text: string, offset: number): void {
    if ('sending' in told) {
      const first = told.sending[0] ?? -1
      // Sent once more: the server may have had it since the first time.
      const atS = Math.min(told.at, this.#doubts.get(first)?.atS ?? told.at)
      this.#doubts.set(first, { jobs: told.sending, atS })
    } else if ('sent' in told) {
      this.#doubts.delete(told.sent[0] ?? -1)
      for (const [place, index] of told.sent.entries()) this.jobIds.set(index, told.job_ids[place] ?? '')
    } else if ('refused' in told) {
      this.#doubts.delete(told.refused[0] ?? -1)
    } else {
      const before = text.slice(0, text.indexOf(ROW) + ROW.length)
      const kept = { offset: offset + before.length, bytes: Buffer.byteLength(text) - before.length - 1 }
      this.#counts[told.status] += 1
      this.#rows.set(told.ended, { status: told.status, createdAtS: told.created_at, ...kept })
    }
  }

  #write(text: string): void {
    const bytes = Buffer.from(`${text}\n`)
    try {
      for (let written = 0; written < bytes.length; ) {
        written += writeSync(this.#fd, bytes, written, bytes.length - written, this.#end + written)
      }
    } catch (error) {
      throw new CommandError(`${this.#path} cannot be written: ${(error as Error).message}.`)
    }
    this.#end += bytes.length
  }
}

function firstOf(text: string, path: string): FirstRecord {
  try {
    const first = JSON.parse(text) as FirstRecord
    if (first.parley_batch === 1) return first
  } catch {
    // The same as JSON of another kind.
  }
  throw new CommandError(`${path} is not a journal of this version of parley batch. --restart begins anew.`)
}

/** The whole lines of a file, read in pieces, each with where it begins. */
function* linesOf(fd: number): Generator<{ readonly offset: number; readonly text: string }> {
  const piece = Buffer.alloc(PIECE)
  let begun: Buffer[] = []
  let offset = 0
  for (let at = 0; ; ) {
    const bytes = piece.subarray(0, readSync(fd, piece, 0, PIECE, at))
    if (bytes.length === 0) return
    at += bytes.length
    let from = 0
    for (let end = bytes.indexOf(LINE_END); end !== -1; end = bytes.indexOf(LINE_END, from)) {
      const line = Buffer.concat([...begun, bytes.subarray(from, end)])
      yield { offset, text: line.toString('utf8') }
      offset += line.length + 1
      begun = []
      from = end + 1
    }
    begun.push(Buffer.from(bytes.subarray(from)))
  }
}
