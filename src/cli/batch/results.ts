/** Writes the results of `parley batch` in the order of the input. The output file appears only when it is complete. */
import { statSync } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { parseExactly } from '../../json-text/read-json.ts'
import { syncFolderOf } from '../../store/sync-folder.ts'
import { CommandError } from '../input-output.ts'
import type { ResultFormat } from '../options.ts'
import type { Input } from './input.ts'
import { invalidRow, type Journal, type Row } from './journal.ts'
import { type OpenAiContext, openAiRow } from './openai.ts'

const ROWS_PER_WRITE = 500

/**
 * Rejects with a `CommandError` that explains how to write the results again.
 * @param out a file name, or `-` for standard output
 * @param again the command that writes the results again
 */
export async function writeResults(out: string, rows: Iterable<string>, again: string): Promise<void> {
  const howToRetry = `The results are not lost: run ${again}.`
  if (out === '-') {
    await writeInChunks(rows, (text) => writeOut(text, howToRetry))
    return
  }
  const isReplaced = !isDevice(out)
  const part = isReplaced ? `${out}.part` : out
  let file: FileHandle | undefined
  try {
    file = await open(part, 'w')
    const opened = file
    await writeInChunks(rows, (text) => opened.appendFile(text))
    if (isReplaced) await file.sync()
    await file.close()
    if (isReplaced) {
      await rename(part, out)
      syncFolderOf(out)
    }
  } catch (error) {
    await file?.close().catch(() => {})
    if (isReplaced) await rm(part, { force: true })
    throw new CommandError(`Cannot write ${out}: ${(error as Error).message}. ${howToRetry}`)
  }
}

/**
 * Returns true for devices such as /dev/null, and for pipes. They are written directly, because renaming a file to their name
 * would replace them.
 */
export function isDevice(out: string): boolean {
  const found = statSync(out, { throwIfNoEntry: false })
  return found !== undefined && !found.isFile() && !found.isDirectory()
}

async function writeInChunks(
  rows: Iterable<string>,
  write: (text: string) => Promise<unknown>,
): Promise<void> {
  let chunk: string[] = []
  for (const row of rows) {
    chunk.push(`${row}\n`)
    if (chunk.length < ROWS_PER_WRITE) continue
    await write(chunk.join(''))
    chunk = []
  }
  await write(chunk.join(''))
}

function writeOut(text: string, howToRetry: string): Promise<void> {
  return new Promise((resolve, reject) => {
    // Without this listener, an error would crash the process. The callback of `write` reports the error.
    if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', () => {})
    process.stdout.write(text, (error) => {
      if (error) reject(new CommandError(`Cannot write to standard output: ${error.message}. ${howToRetry}`))
      else resolve()
    })
  })
}

export function* rowsOf(
  { lines, jobs, invalid }: Input,
  journal: Journal,
  format: ResultFormat,
): Generator<string> {
  const problems = new Map(invalid.map((line) => [line.index, line]))
  const inputJobs = new Map(jobs.map((job) => [job.index, job]))
  for (const { index, number } of lines) {
    const problem = problems.get(index)
    const kept = problem
      ? { text: JSON.stringify(invalidRow(problem, problem.problem)), createdAtS: null }
      : journal.row(index)
    if (!kept) throw new Error(`line ${number} has no result`)
    if (format === 'parley') {
      yield kept.text
      continue
    }
    const job = inputJobs.get(index)?.job()
    const context: OpenAiContext = {
      line: number,
      model: job?.model ?? '',
      format: job?.response_format.format ?? 'text',
      createdAtS: kept.createdAtS,
    }
    yield JSON.stringify(openAiRow(parseExactly(kept.text) as Row, context))
  }
}
