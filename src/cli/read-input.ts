/** Reads input files and standard input of commands. */
import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { CommandError } from './output.ts'

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
