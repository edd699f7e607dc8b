/** Checks all lines of a batch before the first one runs, and lists those that are wrong. */
import { hash } from 'node:crypto'
import type { JobOwner } from '../queue/job-creator.ts'
import type { StoredBatch } from '../store/batch-store.ts'
import type { LineFormat } from './line-format.ts'
import type { LineReader } from './line-reader.ts'
import type { LineStarts } from './line-starts.ts'
import type { LineProblem, WrongLine } from './progress.ts'

/**
 * A batch lists at most `MAX_NAMED` wrong lines, whose messages and paths have at most `MAX_NAMED_CHARACTERS`; others are only
 * counted. Paths in schemas can be long, and responses that list batches contain all problems.
 */
const MAX_NAMED = 1000
const MAX_NAMED_CHARACTERS = 256 * 1024
/**
 * Repeated `custom_id`s are detected by this many base64url digits of their hashes, because the texts can be too large for
 * memory.
 */
const HASH_DIGITS = 16

export interface ValidationOptions {
  readonly batch: StoredBatch
  readonly reader: LineReader
  readonly format: LineFormat
  readonly starts: LineStarts
  readonly maxLines: number
}

export class Validation {
  readonly problems: LineProblem[] = []
  total = 0
  readonly #options: ValidationOptions
  readonly #seen = new Set<string>()
  #line = 0
  #unnamed = 0
  #characters = 0

  constructor(options: ValidationOptions) {
    this.#options = options
  }

  /** Returns true at the end, or if no further lines need to be checked. */
  async checkNext(owner: JobOwner): Promise<boolean> {
    const { reader, maxLines } = this.#options
    const line = await reader.next(this.#line === 0 ? 0 : undefined)
    if (line === null) return this.#end()
    this.#line += 1
    const isBlank = line.bytes?.length === 0
    if (!isBlank) this.total += 1
    // Blank lines have the same limit, because reading them takes time, and a file may have millions of them.
    if (this.total > maxLines || this.#line - this.total > maxLines) {
      const kind = isBlank ? 'blank lines' : 'lines'
      const message = `The file has more than ${maxLines} ${kind}, the limit of the tier (max_batch_lines).`
      this.problems.push({ line: null, code: 'too_many_lines', message, param: null })
      return true
    }
    if (!isBlank) await this.#checkLine(line.bytes, owner)
    return false
  }

  #end(): true {
    if (this.#unnamed > 0) {
      const message = `${this.#unnamed} further lines are wrong.`
      this.problems.push({ line: null, code: 'more_errors', message, param: null })
    }
    if (this.total === 0) {
      this.problems.push({ line: null, code: 'empty_file', message: 'The file has no lines.', param: null })
    }
    return true
  }

  async #checkLine(bytes: Uint8Array | null, owner: JobOwner): Promise<void> {
    const { format, starts, batch } = this.#options
    if (bytes === null) return this.#add(TOO_LONG)
    const read = await format.read(bytes, batch)
    if (!('element' in read)) return this.#add(read)
    const digits = hash('sha256', read.customId, 'base64url').slice(0, HASH_DIGITS)
    if (this.#seen.has(digits)) {
      const message = 'Another line has the same custom_id.'
      return this.#add({ code: 'duplicate_custom_id', message, param: 'custom_id' })
    }
    this.#seen.add(digits)
    // A suspension does not make the line wrong, because the account may be resumed before the line runs.
    const admitted = await starts.admit(read.element, { ...owner, suspended: false })
    if (admitted.kind === 'refused') this.#add(format.problemOf(batch.endpoint, admitted.error))
  }

  #add(problem: WrongLine): void {
    const { code, message, param } = problem
    this.#characters += message.length + (param?.length ?? 0)
    if (this.problems.length >= MAX_NAMED || this.#characters > MAX_NAMED_CHARACTERS) {
      this.#unnamed += 1
      return
    }
    this.problems.push({ line: this.#line, code, message, param })
  }
}

const TOO_LONG = {
  code: 'line_too_long',
  message: 'The line is longer than a request may be (limits.body_bytes).',
  param: null,
}
