/** What `parley batch` takes. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { EXIT_CODES_HELP } from '../call/exit-code.ts'
import { addServerOptions } from '../call/server-options.ts'
import { numberFrom } from '../number-option.ts'
import type { BatchOptions } from './batch.ts'
import { FORMATS } from './formats.ts'

const CONCURRENCY = 1000
const MOST_CONCURRENCY = 100_000

const HELP = `
Each line is a job creation object, with a custom_id of yours if you like, or a line of an OpenAI batch file:
  {"custom_id":"a","model":"gpt-5-mini","response_format":{"format":"text"},"messages":[{"role":"user","content":"Hi"}]}
  {"custom_id":"b","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-5-mini","messages":[…]}}

Examples:
  parley batch jobs.jsonl                              results in jobs.jsonl.results.jsonl
  parley batch jobs.jsonl --out - | jq -r .result.response_content
  make-jobs | parley batch - --out results.jsonl
  parley batch openai.jsonl --model gpt-4o=gpt-5 --drop temperature,max_tokens --format openai

All lines are checked before the first is sent. Run the same command again to go on after Ctrl-C, a crash or an outage:
nothing is sent or paid twice. The results are written when all lines have ended, in the order of the lines.
${EXIT_CODES_HELP.replace('2 the job failed', '2 a line is not completed')}`

export function addBatch(command: Command, exit: (code: number) => void): void {
  addServerOptions(
    command
      .description('send a file of jobs to a server, and write their results in the same order')
      .argument('<file>', 'JSON lines, one job each; - is standard input')
      .option('--out <file>', 'where the results go (default: FILE.results.jsonl); - is standard output')
      .addOption(
        new Option('--format <format>', 'shape of the results').choices([...FORMATS]).default('parley'),
      )
      .option('--model <from=to>', 'call a model by another name, or TO for all; repeatable', modelOf)
      .option('--drop <fields>', "leave fields of OpenAI's bodies out, such as temperature,seed", fieldsOf)
      .option(
        '--concurrency <jobs>',
        'jobs at the server at once, at most',
        numberFrom(1, MOST_CONCURRENCY),
        CONCURRENCY,
      )
      .option('--skip-invalid', 'send the other lines when some are invalid')
      .addOption(
        new Option('--restart', 'begin anew: forget an unfinished run, replace results').conflicts(
          'sendAgain',
        ),
      )
      .option('--send-again', 'also what the server may have, and is too old for it to tell')
      .option('--json', 'print a summary as a JSON object'),
  )
    .addHelpText('after', HELP)
    .action(async (file: string, options: BatchOptions) => {
      if (options.json && options.out === '-') {
        command.error('error: --json prints a summary where --out - prints the results: choose one')
      }
      const { batch } = await import('./batch.ts')
      exit(await batch(file, options))
    })
}

function modelOf(text: string, before: ReadonlyMap<string, string> = new Map()): ReadonlyMap<string, string> {
  const [from = '', to] = text.split('=', 2)
  if (from === '' || to === '') throw new InvalidArgumentError('It must be FROM=TO, or one name for all.')
  return new Map([...before, to === undefined ? ['*', from] : [from, to]])
}

function fieldsOf(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(',').map((name) => name.trim())]
}
