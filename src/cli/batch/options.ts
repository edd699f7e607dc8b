/** Defines the options of `parley batch`. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { addServerOptions, EXIT_CODES_HELP } from '../call/client-command.ts'
import { numberFrom } from '../operator/shared-options.ts'
import type { BatchOptions } from './batch.ts'
import { FORMATS } from './row.ts'

const CONCURRENCY = 1000
const MOST_CONCURRENCY = 100_000

const HELP = `
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

export function addBatch(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description('send a file of jobs to a server and write the results in the same order')
      .argument('<file>', 'JSON lines, one job per line; - is standard input')
      .option('--out <file>', 'file for the results (default: FILE.results.jsonl); - is standard output')
      .addOption(
        new Option('--format <format>', 'format of the results').choices([...FORMATS]).default('parley'),
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
    .addHelpText('after', HELP)
    .action(async (file: string, options: BatchOptions) => {
      if (options.json && options.out === '-') {
        command.error('error: --json and --out - both print to standard output; choose one')
      }
      const { batch } = await import('./batch.ts')
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
