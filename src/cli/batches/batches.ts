/** `parley batches` creates batches that the server runs, lists and shows them, downloads their results, and cancels them. */
import { createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { type Report, startReport } from '../batch/report.ts'
import { interruptible } from '../call/connection.ts'
import { printJson } from '../call/job.ts'
import {
  CommandError,
  counted,
  printable,
  printBytes,
  printError,
  printLine,
  table,
  timeOf,
} from '../input-output.ts'
import { EXIT, type ServerOptions } from '../options.ts'
import { type Batch, V1Calls } from './v1-calls.ts'

export interface CreateBatchOptions extends ServerOptions {
  readonly endpoint: 'chat/completions' | 'responses'
  readonly metadata?: Readonly<Record<string, string>>
  readonly wait?: true
  readonly json?: true
}

const ENDED = ['completed', 'failed', 'expired', 'cancelled']
const POLL_MS = 1000
const MAX_PRINTED = 20
const LATEST = 20

/** Resolves with the exit code, as do the other commands in this file. */
export async function createBatch(file: string, options: CreateBatchOptions): Promise<number> {
  const { endpoint, metadata, wait, json } = options
  const created = await interruptible(
    async (signal) => {
      const calls = new V1Calls(options, signal)
      const { id } = await calls.upload(file)
      const wanted = { input_file_id: id, endpoint: `/v1/${endpoint}`, completion_window: '24h' }
      try {
        return await calls.create({ ...wanted, ...(metadata && { metadata }) })
      } catch (error) {
        // If only the response was lost, the batch exists. It is then one of the newest.
        const batches = await calls.list(LATEST).catch(() => null)
        const created = batches?.find(({ input_file_id }) => input_file_id === id)
        if (created) return created
        // Without the batch, nobody would use the uploaded file.
        if (batches !== null) await calls.deleteFile(id).catch(() => {})
        throw error
      }
    },
    () => 'Interrupted. The server may have created the batch already; `parley batches list` shows it.',
  )
  if (!wait) {
    if (json) printJson(created)
    else printLine(created.id)
    return EXIT.completed
  }
  printError(`Batch ${created.id}`)
  return showBatch(created.id, options)
}

export interface ShowBatchOptions extends ServerOptions {
  readonly wait?: true
  readonly json?: true
}

export async function showBatch(id: string, options: ShowBatchOptions): Promise<number> {
  const { wait, json } = options
  const batch = await interruptible(
    (signal) => {
      const calls = new V1Calls(options, signal)
      return wait ? waitFor(calls, id, signal) : calls.retrieve(id)
    },
    () =>
      `Interrupted. The batch continues on the server. To wait for it again: parley batches show ${id} --wait`,
  )
  if (json) printJson(batch)
  else printBatch(batch)
  return exitCodeOf(batch)
}

/** The wait continues through an outage of the server. Only the first request fails at once. */
async function waitFor(calls: V1Calls, id: string, signal: AbortSignal): Promise<Batch> {
  let report: Report | null = null
  let isAway = false
  try {
    for (let isFirst = true; ; isFirst = false) {
      try {
        const batch = await calls.retrieve(id)
        if (ENDED.includes(batch.status)) return batch
        isAway = false
        const { total, completed, failed } = batch.request_counts
        const progress = { ended: completed + failed, failed }
        if (total > 0) report ??= startReport(total, progress)
        report?.show(progress)
      } catch (error) {
        if (isFirst || !(error instanceof CommandError) || error.exitCode !== EXIT.unreachable) throw error
        if (!isAway) printError(`${error.message} The command tries again until the server answers.`)
        isAway = true
      }
      await pause(POLL_MS, undefined, { signal })
    }
  } finally {
    report?.end()
  }
}

function exitCodeOf({ status, request_counts: { failed } }: Batch): number {
  if (!ENDED.includes(status)) return EXIT.open
  return status === 'completed' && failed === 0 ? EXIT.completed : EXIT.failed
}

function printBatch(batch: Batch): void {
  const { id, status, created_at, request_counts: counts, usage, errors } = batch
  const hasFiles = batch.output_file_id !== undefined || batch.error_file_id !== undefined
  printLine(
    [
      `${id}: ${status.replace('_', ' ')}`,
      `lines    ${counts.completed} answered, ${counts.failed} failed, of ${counts.total}`,
      `tokens   ${usage.input_tokens} in, ${usage.output_tokens} out`,
      `created  ${timeOf(created_at * 1000)}`,
      ...(hasFiles ? [`results  parley batches download ${id}`] : []),
    ].join('\n'),
  )
  const problems = errors?.data ?? []
  for (const { line, code, message } of problems.slice(0, MAX_PRINTED))
    printError(`${line === null ? '' : `line ${line}: `}${code}: ${printable(message)}`)
  if (problems.length > MAX_PRINTED) printError(`… and ${problems.length - MAX_PRINTED} more`)
}

export interface ListBatchesOptions extends ServerOptions {
  readonly limit: number
  readonly json?: true
}

export async function listBatches(options: ListBatchesOptions): Promise<number> {
  const batches = await interruptible(
    (signal) => new V1Calls(options, signal).list(options.limit),
    () => 'Interrupted.',
  )
  if (options.json) printJson(batches)
  else if (batches.length === 0) printLine('The account has no batches.')
  else
    printLine(
      table([['BATCH ID', 'STATUS', 'LINES', 'ANSWERED', 'FAILED', 'CREATED'], ...batches.map(rowOf)]),
    )
  return EXIT.completed
}

function rowOf({ id, status, created_at, request_counts: { total, completed, failed } }: Batch): string[] {
  return [id, status, String(total), String(completed), String(failed), timeOf(created_at * 1000)]
}

export interface DownloadOptions extends ServerOptions {
  readonly out?: string
  readonly errors?: string
  readonly force?: true
  readonly json?: true
}

export async function downloadBatch(id: string, options: DownloadOptions): Promise<number> {
  const written = await interruptible(
    async (signal) => {
      const calls = new V1Calls(options, signal)
      const batch = await calls.retrieve(id)
      if (!ENDED.includes(batch.status)) {
        const message = `Batch ${id} is ${batch.status.replace('_', ' ')}. Its files can be read when it has ended: parley batches show ${id} --wait`
        throw new CommandError(message, EXIT.open)
      }
      const { output_file_id: output, error_file_id: errors } = batch
      if (output === undefined && errors === undefined)
        throw new CommandError(`Batch ${id} is ${batch.status}, and has no results.`, EXIT.failed)
      return {
        out: output === undefined ? null : await save(calls, output, options.out, options),
        errors: errors === undefined ? null : await save(calls, errors, options.errors, options),
        batch,
      }
    },
    () => 'Interrupted. Nothing is left of the file that was being written.',
  )
  const { batch, ...files } = written
  const { completed, failed } = batch.request_counts
  if (options.json) printJson({ batch: id, completed, failed, ...files })
  else {
    if (files.out !== null && files.out !== '-') printError(`${counted(completed, 'answer')}: ${files.out}`)
    if (files.errors !== null && files.errors !== '-')
      printError(`${counted(failed, 'error')}: ${files.errors}`)
  }
  return exitCodeOf(batch)
}

/** Returns the file's name. The file appears under its name only when it is complete. */
async function save(
  calls: V1Calls,
  fileId: string,
  wanted: string | undefined,
  { force }: DownloadOptions,
): Promise<string> {
  // `basename` prevents the server from choosing the folder.
  const name = wanted ?? basename((await calls.findFile(fileId)).filename)
  if (name === '-') {
    await printBytes(calls.content(fileId))
    return name
  }
  const found = await stat(name).catch(() => null)
  if (found?.isFile() && !force) {
    throw new CommandError(`${name} already exists. Pass another name, or --force to replace it.`)
  }
  // Renaming a file to the name of a device or a pipe would replace the device, so devices are written directly.
  const isReplaced = found === null || found.isFile()
  const part = isReplaced ? `${name}.part` : name
  try {
    await pipeline(calls.content(fileId), createWriteStream(part))
    if (isReplaced) await rename(part, name)
  } catch (error) {
    if (isReplaced) await rm(part, { force: true })
    const { code } = error as NodeJS.ErrnoException
    if (error instanceof CommandError || code === undefined || code === 'ABORT_ERR') throw error
    throw new CommandError(`${name} cannot be written: ${(error as Error).message}`)
  }
  return name
}

export interface CancelBatchOptions extends ServerOptions {
  readonly json?: true
}

export async function cancelBatch(id: string, options: CancelBatchOptions): Promise<number> {
  const batch = await interruptible(
    (signal) => new V1Calls(options, signal).cancel(id),
    () => 'Interrupted. The server may have cancelled the batch already.',
  )
  const isCancelled = batch.status === 'cancelling' || batch.status === 'cancelled'
  if (options.json) printJson(batch)
  else if (isCancelled) printError(`Batch ${id} is being cancelled. Its files have what was answered before.`)
  else printError(`Batch ${id} is ${batch.status} already, so it was not cancelled.`)
  return isCancelled ? EXIT.completed : EXIT.other
}
