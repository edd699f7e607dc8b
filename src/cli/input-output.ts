/**
 * Reads files and standard input of commands, prints lines and tables on standard output, and errors on standard error. Also
 * defines the error that ends a command.
 */
import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'

export function printLine(text: string): void {
  printText(`${text}\n`)
}

/** The text must end with a line end. */
export function printText(text: string): void {
  endIfOutputFails()
  process.stdout.write(text)
}

/** Resolves when all bytes are written. */
export async function printBytes(chunks: AsyncIterable<Uint8Array>): Promise<void> {
  endIfOutputFails()
  for await (const chunk of chunks) await new Promise((resolve) => process.stdout.write(chunk, resolve))
}

export function printError(text: string): void {
  process.stderr.write(`${text}\n`)
}

function endIfOutputFails(): void {
  if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', endWithoutOutput)
}

/** Called when standard output cannot be written. If its reader has exited, as in `parley … | head`, this is not an error. */
function endWithoutOutput(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit()
  printError(`Cannot write to standard output: ${error.message}.`)
  process.exit(1)
}

/** The first row is the header. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Returns a number with its noun: `1 job`, `2 jobs`, `0 entries`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}

/** The time is in UTC. */
export function timeOf(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/**
 * Escapes untrusted text for a terminal, so that it cannot move the cursor, change the writing direction or set colours.
 * Truncates text longer than `maxLength` characters.
 */
export function printable(text: string, maxLength = Number.POSITIVE_INFINITY): string {
  const shown = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text
  return shown.replace(CONTROLS, escaped)
}

function escaped(character: string): string {
  if (character === '\n') return '\\n'
  return `\\u{${character.codePointAt(0)?.toString(16)}}`
}

/** The user can fix this error, so its message is printed without a stack trace. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  /** The process exits with this code. docs/command-line.md lists the codes. */
  readonly exitCode: number

  constructor(message: string, exitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

const BOM = Buffer.from([0xef, 0xbb, 0xbf])

/** Reads standard input for `-`. Returns valid UTF-8 without a byte order mark. */
export async function readInput(file: string): Promise<Buffer> {
  const bytes = await readBytes(file)
  const about = file === '-' ? 'Standard input' : file
  if (!isUtf8(bytes)) throw new CommandError(`${about} is not valid UTF-8.`)
  return bytes.subarray(0, BOM.length).equals(BOM) ? bytes.subarray(BOM.length) : bytes
}

async function readBytes(file: string): Promise<Buffer> {
  if (file === '-') return buffer(process.stdin)
  try {
    return await readFile(file)
  } catch (error) {
    const { code, message } = error as Error & { code?: string }
    if (code === 'ENOENT') throw new CommandError(`${file} does not exist.`)
    throw new CommandError(`${file} cannot be read: ${message}`)
  }
}
