/** Prints a job: its answer on standard output, everything else on standard error. */
import type { EndedJob, Job } from '../../../client/src/index.ts'
import { printError, printLine } from '../output.ts'
import { printable } from '../printable.ts'
import { EXIT } from './exit-code.ts'

/** Control characters that a terminal would interpret, except line ends and tabs. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern is about control characters
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

/** Returns the exit code. */
export function printJob(job: Job, json: boolean): number {
  if (json) printJson(job)
  if (job.status !== 'completed' && job.status !== 'failed') {
    if (!json) printError(`Job ${job.job_id} is ${job.status}. Pass --wait to wait until it has finished.`)
    return EXIT.open
  }
  return json ? exitCodeOf(job) : printEnded(job)
}

/** On one line, or indented on a terminal. */
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

/** Prints text unchanged with a line end after it, and anything else as JSON. */
function printContent(content: unknown): void {
  if (typeof content !== 'string') {
    printJson(content)
    return
  }
  const text = process.stdout.isTTY ? escapeControls(content) : content
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`)
}

function exitCodeOf({ status }: EndedJob): number {
  return status === 'completed' ? EXIT.completed : EXIT.failed
}

function escapeControls(text: string): string {
  return text.replace(CONTROLS, (control) => `\\u{${control.codePointAt(0)?.toString(16)}}`)
}
