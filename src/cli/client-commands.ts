/** Declares the commands that call a server over HTTP. The code of a command is loaded only when the command runs. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { CACHE_TTL_S, COMPLETE_WITHIN_S, TIMEOUT_S } from '../job/field-rules.ts'
import { PRIORITIES } from '../job/priority.ts'
import type { BatchOptions } from './batch/batch.ts'
import type {
  CancelBatchOptions,
  CreateBatchOptions,
  DownloadOptions,
  ListBatchesOptions,
  ShowBatchOptions,
} from './batches/batches.ts'
import type { JobOptions, ListJobsOptions } from './call/job.ts'
import type { SendOptions } from './call/send.ts'
import {
  addServerOptions,
  EXIT_CODES_HELP,
  examples,
  MAX_ROWS,
  numberFrom,
  RESULT_FORMATS,
} from './options.ts'

const DEFAULT_MODEL = 'gpt-auto'
const JOB_STATUSES = ['pending', 'assigned', 'completed', 'failed'] as const
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

export function addClientCommands(program: Command, exit: (code: number) => void): void {
  addSend(program.command('send'), exit)
  addJob(program.command('job'), exit)
  addBatch(program.command('batch'), exit)
  addBatches(program.command('batches'), exit)
}

function addSend(command: Command, exit: (code: number) => void): void {
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
      const { send } = await import('./call/send.ts')
      exit(await send(words, options))
    })
}

function addPair(pair: string, earlier: Readonly<Record<string, string>> = {}): Record<string, string> {
  const [key = ''] = pair.split('=', 1)
  if (key === pair) throw new InvalidArgumentError('It is KEY=VALUE.')
  return Object.fromEntries([...Object.entries(earlier), [key, pair.slice(key.length + 1)]])
}

function addJob(command: Command, exit: (code: number) => void): void {
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
      const { callJob } = await import('./call/job.ts')
      exit(await callJob(jobId, options))
    })
}

export function addJobList(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description("over HTTP: list the jobs of the API key's account, newest first")
      .addOption(new Option('--status <status>', 'only jobs with this status').choices([...JOB_STATUSES]))
      .option('--metadata <pair>', 'only jobs with KEY=VALUE in their metadata; may be repeated', addPair)
      .option('--limit <count>', 'list at most this many', numberFrom(1, MAX_ROWS), 20)
      .option('--json', 'print a JSON array'),
  )
    .addHelpText('after', LIST_HELP)
    .action(async (options: ListJobsOptions) => {
      const { listJobs } = await import('./call/job.ts')
      exit(await listJobs(options))
    })
}

const CONCURRENCY = 1000
const MOST_CONCURRENCY = 100_000

const BATCH_HELP = `
Each line is a job creation object, optionally with your own custom_id, or a line of an OpenAI batch file:
  {"custom_id":"a","model":"gpt-5-mini","response_format":{"format":"text"},"messages":[{"role":"user","content":"Hi"}]}
  {"custom_id":"b","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-5-mini","messages":[…]}}

Examples:
  parley batch jobs.jsonl                              results in jobs.jsonl.results.jsonl
  parley batch jobs.jsonl --out - | jq -r .result.response_content
  make-jobs | parley batch - --out results.jsonl
  parley batch openai.jsonl --model gpt-4o=gpt-5 --drop temperature,max_tokens --format openai

All lines are checked before the first is sent. After Ctrl-C, a crash or an outage, run the same command again to resume:
no job is sent or paid for twice. When all jobs have finished, the results are written in the order of the lines.
This machine must stay connected. To let the server run a file of OpenAI's lines instead, use parley batches.
${EXIT_CODES_HELP.replace('2 the job failed', '2 a line was not completed')}`

function addBatch(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description('send a file of jobs to a server and write the results in the same order')
      .argument('<file>', 'JSON lines, one job per line; - is standard input')
      .option('--out <file>', 'file for the results (default: FILE.results.jsonl); - is standard output')
      .addOption(
        new Option('--format <format>', 'format of the results')
          .choices([...RESULT_FORMATS])
          .default('parley'),
      )
      .option(
        '--model <from=to>',
        'replace a model name, or all of them if only TO is given; repeatable',
        modelOf,
      )
      .option('--drop <fields>', "ignore fields of OpenAI's bodies, for example temperature,seed", fieldsOf)
      .option(
        '--concurrency <jobs>',
        'maximum number of unfinished jobs on the server at the same time',
        numberFrom(1, MOST_CONCURRENCY),
        CONCURRENCY,
      )
      .option('--skip-invalid', 'if some lines are invalid, send the others')
      .addOption(
        new Option('--restart', 'start over: discard an unfinished run, replace results').conflicts(
          'sendAgain',
        ),
      )
      .option(
        '--send-again',
        'resend batches even if the server may have received them and no longer remembers',
      )
      .option('--json', 'print a summary as a JSON object'),
  )
    .addHelpText('after', BATCH_HELP)
    .action(async (file: string, options: BatchOptions) => {
      if (options.json && options.out === '-') {
        command.error('error: --json and --out - both print to standard output; choose one')
      }
      const { batch } = await import('./batch/batch.ts')
      exit(await batch(file, options))
    })
}

function modelOf(text: string, before: ReadonlyMap<string, string> = new Map()): ReadonlyMap<string, string> {
  const [from = '', to] = text.split('=', 2)
  if (from === '' || to === '')
    throw new InvalidArgumentError('It must be FROM=TO, or one name for all models.')
  return new Map([...before, to === undefined ? ['*', from] : [from, to]])
}

function fieldsOf(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(',').map((name) => name.trim())]
}

const BATCHES_HELP = `
Examples:
  id=$(parley batches create lines.jsonl)
  parley batches show "$id" --wait && parley batches download "$id"
  parley batches list
  parley batches cancel "$id"

The server runs the file in the background, even while this machine is off: up to 50,000 lines, within 24 hours.
Each line is {"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-5-mini","messages":[…]}}.
For jobs in Parley's own format, or results in the order of the lines, use parley batch.`

const BATCHES_CODES = EXIT_CODES_HELP.replace(
  '2 the job failed',
  '2 the batch did not answer each line',
).replace('the job has not finished yet', 'the batch has not ended yet')

function addBatches(group: Command, exit: (code: number) => void): void {
  group.description('create, list, show, download and cancel batches that the server runs from a file')
  group.addHelpText('after', `${BATCHES_HELP}\n${BATCHES_CODES}`)
  addServerOptions(
    group
      .command('create')
      .description('upload a file of lines, and create a batch from it')
      .argument('<file>', 'lines of JSON, one request each; - is standard input')
      .addOption(
        new Option('--endpoint <endpoint>', 'the route that the lines call')
          .choices(['chat/completions', 'responses'])
          .default('chat/completions'),
      )
      .option('--metadata <pair>', 'KEY=VALUE to store with the batch; repeatable', addPair)
      .option('--wait', 'wait until the batch has ended')
      .option('--json', 'print the batch as a JSON object'),
  )
    .addHelpText(
      ...examples(
        'id=$(parley batches create lines.jsonl)',
        'parley batches create lines.jsonl --metadata team=search --wait',
      ),
    )
    .addHelpText('after', BATCHES_CODES)
    .action(async (file: string, options: CreateBatchOptions) => {
      const { createBatch } = await import('./batches/batches.ts')
      exit(await createBatch(file, options))
    })
  addServerOptions(
    group
      .command('list')
      .description('list the batches of the account, newest first')
      .option('--limit <count>', 'list at most this many', numberFrom(1, MAX_ROWS), 20)
      .option('--json', 'print a JSON array'),
  )
    .addHelpText(...examples("parley batches list --json | jq -r '.[].id'"))
    .action(async (options: ListBatchesOptions) => {
      const { listBatches } = await import('./batches/batches.ts')
      exit(await listBatches(options))
    })
  addServerOptions(
    group
      .command('show')
      .description('show the progress of a batch')
      .argument('<batch-id>', 'the batch ID')
      .option('--wait', 'wait until the batch has ended')
      .option('--json', 'print the batch as a JSON object'),
  )
    .addHelpText(...examples('parley batches show "$id" --wait'))
    .addHelpText('after', BATCHES_CODES)
    .action(async (id: string, options: ShowBatchOptions) => {
      const { showBatch } = await import('./batches/batches.ts')
      exit(await showBatch(id, options))
    })
  addServerOptions(
    group
      .command('download')
      .description('download the answers and errors of a finished batch into two files')
      .argument('<batch-id>', 'the batch ID')
      .option('--out <file>', 'file for the answers (default: BATCH-ID_output.jsonl); - is standard output')
      .option('--errors <file>', 'file for the errors (default: BATCH-ID_error.jsonl); - is standard output')
      .option('--force', 'replace files that exist')
      .option('--json', 'print a summary as a JSON object'),
  )
    .addHelpText(...examples('parley batches download "$id" --out answers.jsonl'))
    .addHelpText('after', BATCHES_CODES)
    .action(async (id: string, options: DownloadOptions) => {
      const { downloadBatch } = await import('./batches/batches.ts')
      exit(await downloadBatch(id, options))
    })
  addServerOptions(
    group
      .command('cancel')
      .description('cancel a batch: no further lines start, and running ones are cancelled')
      .argument('<batch-id>', 'the batch ID')
      .option('--json', 'print the batch as a JSON object'),
  )
    .addHelpText(...examples('parley batches cancel "$id"'))
    .action(async (id: string, options: CancelBatchOptions) => {
      const { cancelBatch } = await import('./batches/batches.ts')
      exit(await cancelBatch(id, options))
    })
}
