/** Defines the options of `parley send`, `parley job` and `parley jobs list`. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { CACHE_TTL_S, COMPLETE_WITHIN_S, TIMEOUT_S } from '../../job/field-rules.ts'
import { PRIORITIES } from '../../job/priority.ts'
import { numberFrom } from '../operator/shared-options.ts'
import { addServerOptions, EXIT_CODES_HELP } from './client-command.ts'
import type { JobOptions, ListJobsOptions } from './job.ts'
import type { SendOptions } from './send.ts'

const DEFAULT_MODEL = 'gpt-auto'
const JOB_STATUSES = ['pending', 'assigned', 'completed', 'failed'] as const
const MAX_LISTED = 10_000
const MAX_WAIT_S = 31_536_000

const SEND_HELP = `
Examples:
  parley send Name a river in Asia
  parley send --system 'Answer in French.' --file question.txt > answer.txt
  git diff | parley send --system 'Write a commit message for this diff.' --model gpt-5
  parley send --schema river.schema.json 'Name a river.' | jq -r .river
  id=$(parley send --no-wait --file long.txt) && parley job "$id" --wait

The answer goes to standard output: text unchanged, JSON on one line (indented on a terminal). Everything else goes to
standard error. If the job takes longer than --timeout, the command polls it until it has finished.
${EXIT_CODES_HELP}`

const JOB_HELP = `
Examples:
  parley job 019a5d3e-…                    the answer, if the job has finished
  parley job 019a5d3e-… --wait --timeout 600
  parley job 019a5d3e-… --json | jq .status
  parley job 019a5d3e-… --cancel
  parley job 019a5d3e-… --delete           messages, answer, cached response and callback
${EXIT_CODES_HELP}`

const LIST_HELP = `
Examples:
  parley jobs list --status failed
  parley jobs list --metadata customer=acme
  parley jobs list --json | jq -r '.[].job_id'

A page of 100 jobs counts as ten of the reads per minute that the tier allows. When they are used up, the command waits.
${EXIT_CODES_HELP}`

export function addSend(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description('send one message to a server, and print the answer')
      .argument(
        '[text...]',
        'the message, or - for standard input; without it, --file or standard input is read',
      )
      .option('--file <file>', 'read the message from a file; - is standard input')
      .option('--model <model>', 'the model that answers', DEFAULT_MODEL)
      .option('--system <text>', 'a system message before the message')
      .option('--schema <file>', 'request JSON that satisfies the JSON Schema in this file')
      .addOption(new Option('--json-format', 'request any JSON value as the answer').conflicts('schema'))
      .option(
        '--timeout <seconds>',
        `how long the server holds the request open (default: ${TIMEOUT_S.default})`,
        numberFrom(TIMEOUT_S.least, TIMEOUT_S.most),
      )
      .option(
        '--cache-ttl <seconds>',
        `how long the answer is cached for identical jobs (default: ${CACHE_TTL_S.default})`,
        numberFrom(CACHE_TTL_S.least, CACHE_TTL_S.most),
      )
      .addOption(
        new Option('--priority <priority>', 'jobs of higher priority start first').choices([...PRIORITIES]),
      )
      .option(
        '--complete-within <seconds>',
        'the job fails if it has not finished this long after its creation',
        numberFrom(COMPLETE_WITHIN_S.least, COMPLETE_WITHIN_S.most),
      )
      .option('--options <json>', `options of the model, for example '{"temperature":0.2,"max_tokens":500}'`)
      .option('--metadata <pair>', 'KEY=VALUE to store with the job; repeatable', addPair)
      .addOption(new Option('--no-wait', 'print the job ID at once; get the answer later with `parley job`'))
      .option('--json', 'print the whole result object'),
  )
    .addHelpText('after', SEND_HELP)
    .action(async (words: string[], options: SendOptions) => {
      if (!options.wait && options.timeout !== undefined) {
        command.error('error: --timeout cannot be used with --no-wait')
      }
      const { send } = await import('./send.ts')
      exit(await send(words, options))
    })
}

export function addPair(
  pair: string,
  earlier: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const [key = ''] = pair.split('=', 1)
  if (key === pair) throw new InvalidArgumentError('It is KEY=VALUE.')
  return Object.fromEntries([...Object.entries(earlier), [key, pair.slice(key.length + 1)]])
}

export function addJob(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description('print the answer of a job, or cancel or delete the job')
      .argument('<job-id>', 'the job ID')
      .option('--wait', 'wait until the job has finished')
      .option('--timeout <seconds>', 'with --wait: wait at most this long', numberFrom(1, MAX_WAIT_S))
      .addOption(
        new Option('--cancel', 'cancel the job if it has not finished').conflicts(['wait', 'delete']),
      )
      .addOption(new Option('--delete', 'permanently delete a finished job').conflicts('wait'))
      .option('--drop-callback', 'with --delete: even if its callback is undelivered')
      .option('--json', 'print the whole result object'),
  )
    .addHelpText('after', JOB_HELP)
    .action(async (jobId: string, options: JobOptions) => {
      const { callJob } = await import('./job.ts')
      exit(await callJob(jobId, options))
    })
}

export function addJobList(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description("over HTTP: list the jobs of the API key's account, newest first")
      .addOption(new Option('--status <status>', 'only jobs with this status').choices([...JOB_STATUSES]))
      .option('--metadata <pair>', 'only jobs with KEY=VALUE in their metadata; may be repeated', addPair)
      .option('--limit <count>', 'list at most this many', numberFrom(1, MAX_LISTED), 20)
      .option('--json', 'print a JSON array'),
  )
    .addHelpText('after', LIST_HELP)
    .action(async (options: ListJobsOptions) => {
      const { listJobs } = await import('./job.ts')
      exit(await listJobs(options))
    })
}
