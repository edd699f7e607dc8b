/**
 * Keeps the journal of a `parley batch` run, a file next to the results to which lines of JSON are only appended. Each batch is
 * recorded durably before it is sent, so after a crash the journal shows which batches the server may have. They can be sent
 * again safely while the server remembers their Idempotency-Keys, because it then returns the existing jobs. `run.ts` checks
 * this.
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
import type { EndedJob, JobError } from '../../../client/src/index.ts'
import { syncFolderOf } from '../../store/sync-folder.ts'
import { CommandError } from '../input-output.ts'

/** `invalid`: the line was not sent, or the server rejected it. `expired`: the server has deleted the job. */
export type RowStatus = 'completed' | 'failed' | 'invalid' | 'expired'

export interface Row {
  /** Line numbers start at 1. */
  readonly line: number
  readonly custom_id?: string
  /** `job_id` is null if no job was created. */
  readonly job_id: string | null
  readonly status: RowStatus
  readonly result: { readonly response_content: unknown } | null
  readonly error: JobError | null
}

interface InputLine {
  readonly number: number
  readonly customId: string | undefined
}

export function endedRow(line: InputLine, { job_id, status, result, error }: EndedJob): Row {
  return { ...identify(line), job_id, status, result, error }
}

export function invalidRow(line: InputLine, message: string): Row {
  return {
    ...identify(line),
    job_id: null,
    status: 'invalid',
    result: null,
    error: { code: 'invalid', message },
  }
}

export function expiredRow(line: InputLine, job_id: string): Row {
  const message = 'The job does not exist or has expired.'
  return { ...identify(line), job_id, status: 'expired', result: null, error: { code: 'expired', message } }
}

function identify({ number, customId }: InputLine): { readonly line: number; readonly custom_id?: string } {
  return { line: number, ...(customId !== undefined && { custom_id: customId }) }
}

/** A run can be resumed only if all of these fields are unchanged. */
export interface RunHeader {
  readonly url: string
  readonly account: string
  readonly input_sha256: string
  /** Lines are read with these options (JSON text). With other options, the jobs would be different. */
  readonly reading: string
}

interface FirstRecord extends RunHeader {
  readonly parley_batch: 1
  readonly run: string
}

/** The journal has no response for this batch, so the server may have its jobs. */
export interface UnknownOutcome {
  readonly jobs: readonly number[]
  /** The batch was first sent at this Unix time. */
  readonly atS: number
}

interface KeptRow {
  readonly status: RowStatus
  readonly createdAtS: number | null
  readonly offset: number
  readonly bytes: number
}

type JournalRecord =
  | { readonly sending: readonly number[]; readonly at: number }
  | { readonly sent: readonly number[]; readonly job_ids: readonly string[] }
  | { readonly refused: readonly number[] }
  | { readonly ended: number; readonly status: RowStatus; readonly created_at: number | null }

const CHUNK_BYTES = 1 << 20
const LINE_END = 0x0a
const ROW = ',"row":'

export class Journal {
  readonly #path: string
  readonly #fd: number
  #closed = false
  #end = 0
  readonly #first: FirstRecord
  readonly jobIds = new Map<number, string>()
  readonly #rows = new Map<number, KeptRow>()
  readonly #counts = { completed: 0, failed: 0, invalid: 0, expired: 0 }
  readonly #unknownOutcomes = new Map<number, UnknownOutcome>()

  private constructor(path: string, fd: number, first: FirstRecord) {
    this.#path = path
    this.#fd = fd
    this.#first = first
  }

  /** The new journal is durable when this returns. */
  static create(path: string, run: string, header: RunHeader): Journal {
    const first = { parley_batch: 1, run, ...header } as const
    const journal = new Journal(path, openSync(path, 'w+', 0o600), first)
    journal.#write(JSON.stringify(first))
    fsyncSync(journal.#fd)
    syncFolderOf(path)
    return journal
  }

  /**
   * Returns null if there is no journal, or if a crash interrupted its creation before the first line was complete. Removes a
   * last line that a crash truncated.
   */
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

  get unknownOutcomes(): readonly UnknownOutcome[] {
    return [...this.#unknownOutcomes.values()]
  }

  get counts(): Readonly<Record<RowStatus, number>> {
    return this.#counts
  }

  get ended(): number {
    return this.#rows.size
  }

  hasEnded(index: number): boolean {
    return this.#rows.has(index)
  }

  get hasStarted(): boolean {
    return this.jobIds.size > 0 || this.#rows.size > 0 || this.#unknownOutcomes.size > 0
  }

  hasUnknownOutcome(index: number): boolean {
    return this.unknownOutcomes.some(({ jobs }) => jobs.includes(index))
  }

  row(index: number): { readonly text: string; readonly createdAtS: number | null } | null {
    const kept = this.#rows.get(index)
    if (!kept) return null
    const bytes = Buffer.alloc(kept.bytes)
    readSync(this.#fd, bytes, 0, kept.bytes, kept.offset)
    return { text: bytes.toString('utf8'), createdAtS: kept.createdAtS }
  }

  /** Records durably that a batch is about to be sent. The batch must not be sent before this returns. */
  sending(jobs: readonly number[], atS: number): void {
    this.#add({ sending: jobs, at: atS })
    fdatasyncSync(this.#fd)
  }

  sent(jobs: readonly number[], jobIds: readonly string[]): void {
    this.#add({ sent: jobs, job_ids: jobIds })
  }

  /** Records that the server rejected the batch and created none of its jobs. */
  refused(jobs: readonly number[]): void {
    this.#add({ refused: jobs })
  }

  settle(index: number, row: Row, createdAtS: number | null): void {
    this.#add({ ended: index, status: row.status, created_at: createdAtS }, JSON.stringify(row))
  }

  /** Closes the journal durably, so that the run can be resumed. A second call does nothing. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    fdatasyncSync(this.#fd)
    closeSync(this.#fd)
  }

  remove(): void {
    this.close()
    unlinkSync(this.#path)
  }

  #add(record: JournalRecord, row?: string): void {
    const json = JSON.stringify(record)
    const text = row === undefined ? json : `${json.slice(0, -1)}${ROW}${row}}`
    const offset = this.#end
    this.#write(text)
    this.#apply(record, text, offset)
  }

  #take(text: string, offset: number): void {
    try {
      this.#apply(JSON.parse(text) as JournalRecord, text, offset)
    } catch (error) {
      throw new CommandError(
        `${this.#path} is damaged at byte ${offset}: ${(error as Error).message}. Restore the file to resume, or pass --restart to start over.`,
      )
    }
  }

  #apply(record: JournalRecord, text: string, offset: number): void {
    if ('sending' in record) {
      const first = record.sending[0] ?? -1
      // If the batch was sent before, the server may have its jobs since then.
      const atS = Math.min(record.at, this.#unknownOutcomes.get(first)?.atS ?? record.at)
      this.#unknownOutcomes.set(first, { jobs: record.sending, atS })
    } else if ('sent' in record) {
      this.#unknownOutcomes.delete(record.sent[0] ?? -1)
      for (const [place, index] of record.sent.entries()) this.jobIds.set(index, record.job_ids[place] ?? '')
    } else if ('refused' in record) {
      this.#unknownOutcomes.delete(record.refused[0] ?? -1)
    } else {
      const before = text.slice(0, text.indexOf(ROW) + ROW.length)
      const kept = { offset: offset + before.length, bytes: Buffer.byteLength(text) - before.length - 1 }
      this.#counts[record.status] += 1
      this.#rows.set(record.ended, { status: record.status, createdAtS: record.created_at, ...kept })
    }
  }

  #write(text: string): void {
    const bytes = Buffer.from(`${text}\n`)
    try {
      for (let written = 0; written < bytes.length; ) {
        written += writeSync(this.#fd, bytes, written, bytes.length - written, this.#end + written)
      }
    } catch (error) {
      throw new CommandError(`Cannot write ${this.#path}: ${(error as Error).message}.`)
    }
    this.#end += bytes.length
  }
}

function firstOf(text: string, path: string): FirstRecord {
  try {
    const first = JSON.parse(text) as FirstRecord
    if (first.parley_batch === 1) return first
  } catch {
    // Text that is not JSON gets the error below, like JSON of an unknown kind.
  }
  throw new CommandError(
    `${path} is not a journal of this version of parley batch. Resume with the version that wrote it, or pass --restart to start over.`,
  )
}

/** Yields each complete line with its offset in bytes. An incomplete last line is skipped. */
function* linesOf(fd: number): Generator<{ readonly offset: number; readonly text: string }> {
  const chunk = Buffer.alloc(CHUNK_BYTES)
  let partial: Buffer[] = []
  let offset = 0
  for (let at = 0; ; ) {
    const bytes = chunk.subarray(0, readSync(fd, chunk, 0, CHUNK_BYTES, at))
    if (bytes.length === 0) return
    at += bytes.length
    let from = 0
    for (let end = bytes.indexOf(LINE_END); end !== -1; end = bytes.indexOf(LINE_END, from)) {
      const line = Buffer.concat([...partial, bytes.subarray(from, end)])
      yield { offset, text: line.toString('utf8') }
      offset += line.length + 1
      partial = []
      from = end + 1
    }
    partial.push(Buffer.from(bytes.subarray(from)))
  }
}
