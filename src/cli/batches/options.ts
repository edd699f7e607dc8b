/** Defines the options of `parley batches`. */
import { type Command, Option } from 'commander'
import { addServerOptions, EXIT_CODES_HELP } from '../call/client-command.ts'
import { addPair } from '../call/options.ts'
import { examples, numberFrom } from '../operator/shared-options.ts'
import type {
  CancelBatchOptions,
  CreateBatchOptions,
  DownloadOptions,
  ListBatchesOptions,
  ShowBatchOptions,
} from './batches.ts'

const MAX_LISTED = 10_000

const HELP = `
Examples:
  id=$(parley batches create lines.jsonl)
  parley batches show "$id" --wait && parley batches download "$id"
  parley batches list
  parley batches cancel "$id"

The server runs the file in the background, even while this machine is off: up to 50,000 lines, within 24 hours.
Each line is {"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-5-mini","messages":[…]}}.
For jobs in Parley's own format, or results in the order of the lines, use parley batch.`

const CODES = EXIT_CODES_HELP.replace('2 the job failed', '2 the batch did not answer each line').replace(
  'the job has not finished yet',
  'the batch has not ended yet',
)

export function addBatches(group: Command, exit: (code: number) => void): void {
  group.description('create, list, show, download and cancel batches that the server runs from a file')
  group.addHelpText('after', `${HELP}\n${CODES}`)
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
      'after',
      examples(
        'id=$(parley batches create lines.jsonl)',
        'parley batches create lines.jsonl --metadata team=search --wait',
      ),
    )
    .addHelpText('after', CODES)
    .action(async (file: string, options: CreateBatchOptions) => {
      const { createBatch } = await import('./batches.ts')
      exit(await createBatch(file, options))
    })
  addServerOptions(
    group
      .command('list')
      .description('list the batches of the account, newest first')
      .option('--limit <count>', 'list at most this many', numberFrom(1, MAX_LISTED), 20)
      .option('--json', 'print a JSON array'),
  )
    .addHelpText('after', examples("parley batches list --json | jq -r '.[].id'"))
    .action(async (options: ListBatchesOptions) => {
      const { listBatches } = await import('./batches.ts')
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
    .addHelpText('after', examples('parley batches show "$id" --wait'))
    .addHelpText('after', CODES)
    .action(async (id: string, options: ShowBatchOptions) => {
      const { showBatch } = await import('./batches.ts')
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
    .addHelpText('after', examples('parley batches download "$id" --out answers.jsonl'))
    .addHelpText('after', CODES)
    .action(async (id: string, options: DownloadOptions) => {
      const { downloadBatch } = await import('./batches.ts')
      exit(await downloadBatch(id, options))
    })
  addServerOptions(
    group
      .command('cancel')
      .description('cancel a batch: no further lines start, and running ones are cancelled')
      .argument('<batch-id>', 'the batch ID')
      .option('--json', 'print the batch as a JSON object'),
  )
    .addHelpText('after', examples('parley batches cancel "$id"'))
    .action(async (id: string, options: CancelBatchOptions) => {
      const { cancelBatch } = await import('./batches.ts')
      exit(await cancelBatch(id, options))
    })
}
