/** What `parley send` and `parley job` take. */
import { type Command, Option } from 'commander'
import { CACHE_TTL_S, TIMEOUT_S } from '../../job/request.ts'
import { numberFrom } from '../number-option.ts'
import { EXIT_CODES_HELP } from './exit-code.ts'
import type { JobOptions } from './job.ts'
import type { SendOptions } from './send.ts'
import { addServerOptions } from './server-options.ts'

const DEFAULT_MODEL = 'gpt-auto'
/** A wait of a year is one without end. */
const LONGEST_WAIT_S = 31_536_000

const SEND_HELP = `
Examples:
  parley send Name a river in Asia
  parley send --system 'Answer in French.' --file question.txt > answer.txt
  git diff | parley send --system 'Write a commit message for this diff.' --model gpt-5
  parley send --schema river.schema.json 'Name a river.' | jq -r .river
  id=$(parley send --no-wait --file long.txt) && parley job "$id" --wait

The answer goes to standard output, text as it is and JSON on one line (indented on a terminal); everything else goes to
standard error. A job that takes longer than --timeout is waited for by reading it.
${EXIT_CODES_HELP}`

const JOB_HELP = `
Examples:
  parley job 019a5d3e-…                    the answer, if there is one yet
  parley job 019a5d3e-… --wait --timeout 600
  parley job 019a5d3e-… --json | jq .status
${EXIT_CODES_HELP}`

export function addSend(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description('send one message to a server, and print its answer')
      .argument(
        '[text...]',
        'what to say, or - for standard input; without it --file or standard input is read',
      )
      .option('--file <file>', 'read the text from a file; - is standard input')
      .option('--model <model>', 'which model answers', DEFAULT_MODEL)
      .option('--system <text>', 'a system message in front')
      .option('--schema <file>', 'a JSON Schema that the answer satisfies; the answer is JSON')
      .addOption(new Option('--json-format', 'any JSON for an answer').conflicts('schema'))
      .option(
        '--timeout <seconds>',
        `how long the server holds the request open (default: ${TIMEOUT_S.default})`,
        numberFrom(TIMEOUT_S.least, TIMEOUT_S.most),
      )
      .option(
        '--cache-ttl <seconds>',
        `how long the answer is kept for identical jobs (default: ${CACHE_TTL_S.default})`,
        numberFrom(CACHE_TTL_S.least, CACHE_TTL_S.most),
      )
      .addOption(
        new Option('--no-wait', 'print the id of the job at once, and leave its answer to `parley job`'),
      )
      .option('--json', 'print the whole result object'),
  )
    .addHelpText('after', SEND_HELP)
    .action(async (words: string[], options: SendOptions) => {
      if (!options.wait && options.timeout !== undefined) {
        command.error('error: --timeout is about waiting, and --no-wait does not wait')
      }
      const { send } = await import('./send.ts')
      exit(await send(words, options))
    })
}

export function addJob(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description('print the answer of a job, now or at its end')
      .argument('<job-id>', 'its id')
      .option('--wait', 'until it has ended')
      .option('--timeout <seconds>', 'and no longer than this', numberFrom(1, LONGEST_WAIT_S))
      .option('--json', 'print the whole result object'),
  )
    .addHelpText('after', JOB_HELP)
    .action(async (jobId: string, options: JobOptions) => {
      const { showJob } = await import('./job.ts')
      exit(await showJob(jobId, options))
    })
}
