/**
 * Writes log lines to a file descriptor, many at a time, and formats lines in threads that do not load the logging library. If
 * the descriptor cannot be written, for example because the disk is full, lines are kept and retried. Beyond MAX_KEPT, lines
 * are lost and counted, because the log must never stop the server.
 */
import { write, writeSync } from 'node:fs'

/** Lines are written once they have this many characters. A system call for each line would cost more than the line itself. */
const BATCH_LENGTH = 65_536
const WRITE_EVERY_MS = 200
/** At most this many characters wait to be written. Further lines are lost. */
export const MAX_KEPT = 4_194_304
/** If the pipe is full at the end, the writer pauses this often, for one second in total, so that the reader catches up. */
const FLUSH_PAUSES = 100
const FLUSH_PAUSE_MS = 10

export class LogWriter {
  readonly #fd: number
  readonly #lostLine: (lines: number) => string
  #unsent = ''
  #lost = 0
  #batch: Buffer = Buffer.alloc(0)
  #writing = false
  /** Without unwritten lines there is no timer, because a timer would wake an idle process. */
  #scheduled = false

  constructor(fd: number, lostLine: (lines: number) => string) {
    this.#fd = fd
    this.#lostLine = lostLine
  }

  write(line: string): void {
    if (this.#unsent.length + line.length > MAX_KEPT) {
      this.#lost += 1
      return
    }
    this.#unsent += this.#lost > 0 ? this.#lostLine(this.#lost) + line : line
    this.#lost = 0
    if (this.#unsent.length >= BATCH_LENGTH && this.#batch.length === 0) this.#writeBatch()
    else this.#writeLater()
  }

  /** Writes the lines in memory before the process exits. If the pipe stays full for a second, the rest is lost. */
  flush(): void {
    // If a write is in progress, the system completes it, so its batch must not be written again.
    let rest = Buffer.concat(this.#writing ? [this.#takeUnsent()] : [this.#batch, this.#takeUnsent()])
    for (let pauses = 0; rest.length > 0 && pauses < FLUSH_PAUSES; ) {
      try {
        rest = rest.subarray(writeSync(this.#fd, rest))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
        pauses += 1
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FLUSH_PAUSE_MS)
      }
    }
  }

  #takeUnsent(): Buffer {
    const lines = Buffer.from(this.#unsent)
    this.#unsent = ''
    return lines
  }

  #writeLater(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setTimeout(() => {
      this.#scheduled = false
      this.#writeBatch()
    }, WRITE_EVERY_MS).unref()
  }

  #writeBatch(): void {
    if (this.#writing) return
    if (this.#batch.length === 0) this.#batch = this.#takeUnsent()
    if (this.#batch.length === 0) return
    this.#writing = true
    write(this.#fd, this.#batch, (error, written) => {
      this.#writing = false
      if (error) return this.#writeLater()
      this.#batch = this.#batch.subarray(written)
      if (this.#batch.length > 0 || this.#unsent.length >= BATCH_LENGTH) this.#writeBatch()
      else if (this.#unsent.length > 0) this.#writeLater()
    })
  }
}

const LEVELS = { warn: 40, error: 50 } as const

/** Formats a line as pino does. */
export function logLine(level: keyof typeof LEVELS, fields: object, message: string): string {
  return `${JSON.stringify({ level: LEVELS[level], time: new Date().toISOString(), ...fields, msg: message })}\n`
}
