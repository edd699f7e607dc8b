/**
 * Writes log lines to a file descriptor, many at a time. What cannot be written, as on a full disk, is kept and tried
 * again; beyond a limit lines are lost, and a line says how many. A log must not stop the server that it tells of.
 */
import { write, writeSync } from 'node:fs'

/** In characters: lines are gathered, since a system call a line would cost more than the line. */
const GATHERED = 65_536
const WRITE_EVERY_MS = 200
/** Of a log that cannot be written, in characters. */
export const MOST_KEPT = 4_194_304
/** At the very end the reader of a full pipe has a second to make room. */
const LAST_PAUSES = 100
const LAST_PAUSE_MS = 10

export class LogWriter {
  readonly #fd: number
  /** The line that stands for so many lost ones. */
  readonly #lostLine: (lines: number) => string
  #waiting = ''
  #lost = 0
  /** What of the lines sent last is not written yet. */
  #sent: Buffer = Buffer.alloc(0)
  #writing = false

  constructor(fd: number, lostLine: (lines: number) => string) {
    this.#fd = fd
    this.#lostLine = lostLine
    setInterval(() => this.#send(), WRITE_EVERY_MS).unref()
  }

  write(line: string): void {
    if (this.#waiting.length + line.length > MOST_KEPT) {
      this.#lost += 1
      return
    }
    this.#waiting += this.#lost > 0 ? this.#lostLine(this.#lost) + line : line
    this.#lost = 0
    if (this.#waiting.length >= GATHERED && this.#sent.length === 0) this.#send()
  }

  /** Writes what is in memory before the process ends. What cannot be written now is given up. */
  flush(): void {
    // What is being written is the system's to end.
    let rest = Buffer.concat(this.#writing ? [this.#take()] : [this.#sent, this.#take()])
    for (let pauses = 0; rest.length > 0 && pauses < LAST_PAUSES; ) {
      try {
        rest = rest.subarray(writeSync(this.#fd, rest))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
        pauses += 1
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LAST_PAUSE_MS)
      }
    }
  }

  #take(): Buffer {
    const lines = Buffer.from(this.#waiting)
    this.#waiting = ''
    return lines
  }

  /** What fails is tried again at the next turn. */
  #send(): void {
    if (this.#writing) return
    if (this.#sent.length === 0) this.#sent = this.#take()
    if (this.#sent.length === 0) return
    this.#writing = true
    write(this.#fd, this.#sent, (error, written) => {
      this.#writing = false
      if (error) return
      this.#sent = this.#sent.subarray(written)
      if (this.#sent.length > 0 || this.#waiting.length >= GATHERED) this.#send()
    })
  }
}
