/** `parley job` shows a job, waits for it, cancels it or deletes it. `parley jobs list` lists the jobs of the account. */

import {
  ConflictError,
  type EndedJob,
  type Job,
  type JobSummary,
  type Parley,
  TimeoutError,
} from '../../../client/src/index.ts'
import { CommandError, printable, printError, printLine, printText, table, timeOf } from '../input-output.ts'
import { EXIT, type ServerOptions } from '../options.ts'
import { connect, interruptible } from './connection.ts'

export interface JobOptions extends ServerOptions {
  readonly wait?: true
  readonly timeout?: number
  readonly cancel?: true
  readonly delete?: true
  readonly dropCallback?: true
  readonly json?: true
}

export async function callJob(jobId: string, options: JobOptions): Promise<number> {
  const { wait, timeout, cancel, delete: deletes, dropCallback } = options
  if (timeout !== undefined && !wait) throw new CommandError('--timeout can only be used with --wait.')
  if (dropCallback && !deletes) throw new CommandError('--drop-callback can only be used with --delete.')
  const parley = connect(options)
  if (cancel) return cancelJob(parley, jobId, options)
  return deletes ? deleteJob(parley, jobId, options) : showJob(parley, jobId, options)
}

async function showJob(parley: Parley, jobId: string, { wait, timeout, json }: JobOptions): Promise<number> {
  const found = await interruptible(
    async (signal) => {
      if (!wait) return parley.messages.retrieve(jobId, { signal })
      try {
        return await parley.messages.wait(jobId, { signal, timeout })
      } catch (error) {
        // Only the timeout of the whole wait has the job's ID. The timeout of a single request remains an error.
        if (!(error instanceof TimeoutError && error.jobId === jobId)) throw error
        throw new CommandError(
          `Job ${jobId} did not finish within ${timeout} s. It continues on the server.`,
          EXIT.open,
        )
      }
    },
    () => `Interrupted. The job continues on the server. To wait for it again: parley job ${jobId} --wait`,
  )
  return printJob(found, json === true)
}

async function cancelJob(parley: Parley, jobId: string, { json }: JobOptions): Promise<number> {
  const job = await interruptible(
    (signal) => withoutConflict(() => parley.messages.cancel(jobId, { signal })),
    () => 'Interrupted. The server may have cancelled the job already.',
  )
  if (json) printJson(job)
  else printError(`Job ${job.job_id} is cancelled. Its call to the model ends within a second.`)
  return EXIT.completed
}

async function deleteJob(parley: Parley, jobId: string, { dropCallback, json }: JobOptions): Promise<number> {
  const deleted = await interruptible(
    (signal) => withoutConflict(() => parley.messages.delete(jobId, { signal, dropCallback })),
    () => 'Interrupted. The server may have deleted the job already.',
  )
  if (json) printJson(deleted)
  else printError(`Job ${deleted.job_id} is deleted.`)
  return EXIT.completed
}

/** If the job is in the wrong state, the command exits with 1, because the key and the server are not at fault. */
async function withoutConflict<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof ConflictError) throw new CommandError(error.message, EXIT.other)
    throw error
  }
}

export interface ListJobsOptions extends ServerOptions {
  readonly status?: JobSummary['status']
  readonly metadata?: Readonly<Record<string, string>>
  readonly limit: number
  readonly json?: true
}

const MAX_PAGE = 100

export async function listJobs({
  status,
  metadata,
  limit,
  json,
  ...server
}: ListJobsOptions): Promise<number> {
  const parley = connect(server)
  const jobs = await interruptible(
    async (signal) => {
      const found: JobSummary[] = []
      const page = Math.min(limit, MAX_PAGE)
      for await (const job of parley.messages.list({ status, metadata, limit: page, signal })) {
        found.push(job)
        if (found.length === limit) break
      }
      return found
    },
    () => 'Interrupted.',
  )
  if (json) printJson(jobs)
  else if (jobs.length === 0 && metadata) printLine('No job has this metadata.')
  else if (jobs.length === 0) printLine(status ? `No job is ${status}.` : 'The account has no jobs.')
  else
    printLine(
      table([['JOB ID', 'STATUS', 'MODEL', 'CREATED', 'ENDED', 'ERROR', 'CALLBACK'], ...jobs.map(rowOf)]),
    )
  return EXIT.completed
}

function rowOf({ job_id, status, model, created_at, ended_at, error_code, callback }: JobSummary): string[] {
  const ended = ended_at === null ? '' : timeOf(ended_at * 1000)
  return [
    job_id,
    status,
    printable(model),
    timeOf(created_at * 1000),
    ended,
    error_code ?? '',
    callback ?? '',
  ]
}

/** Terminals interpret these characters. Line ends and tabs are harmless. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern is about control characters
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

/** Prints the answer on standard output and everything else on standard error. Returns the exit code. */
export function printJob(job: Job, json: boolean): number {
  if (json) printJson(job)
  if (job.status !== 'completed' && job.status !== 'failed') {
    if (!json) printError(`Job ${job.job_id} is ${job.status}. Pass --wait to wait until it has finished.`)
    return EXIT.open
  }
  return json ? exitCodeOf(job) : printEnded(job)
}

/** On a terminal, the JSON is indented. Elsewhere it is on one line, for programs that read lines. */
export function printJson(value: unknown): void {
  printLine(process.stdout.isTTY ? escapeControls(JSON.stringify(value, null, 2)) : JSON.stringify(value))
}

function printEnded(job: EndedJob): number {
  if (job.status === 'failed') {
    const { code, message, errors = [] } = job.error
    printError(`Job ${job.job_id} failed: ${code}: ${printable(message)}`)
    for (const rule of errors) printError(`  ${printable(rule)}`)
  } else {
    printContent(job.result.response_content)
  }
  return exitCodeOf(job)
}

function printContent(content: unknown): void {
  if (typeof content !== 'string') {
    printJson(content)
    return
  }
  const text = process.stdout.isTTY ? escapeControls(content) : content
  printText(text.endsWith('\n') ? text : `${text}\n`)
}

function exitCodeOf({ status }: EndedJob): number {
  return status === 'completed' ? EXIT.completed : EXIT.failed
}

function escapeControls(text: string): string {
  return text.replace(CONTROLS, (control) => `\\u{${control.codePointAt(0)?.toString(16)}}`)
}
