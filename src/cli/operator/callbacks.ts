/** What `parley callbacks` takes. */
import { type Command, Option } from 'commander'
import { CALLBACK_STATES } from '../../store/callback-store.ts'
import type { ListCallbacksOptions, ReplayOptions } from '../callbacks.ts'
import { numberFrom } from '../number-option.ts'
import { config, examples, MOST_LISTED, type Plain } from './parts.ts'

export function addCallbacks(callbacks: Command): void {
  callbacks
    .command('list')
    .description('callbacks, newest job first')
    .option('--failed', 'only those that failed for good')
    .addOption(
      new Option('--state <state>', 'only those in this state')
        .choices([...CALLBACK_STATES])
        .conflicts('failed'),
    )
    .option('--account <name>', 'only those of this account')
    .option('--before <job-id>', 'only those of jobs before this one')
    .option('--limit <count>', 'how many at most', numberFrom(1, MOST_LISTED), 50)
    .option('--json', 'as a JSON array')
    .addOption(config())
    .addHelpText('after', examples('parley callbacks list --failed --account acme'))
    .action(async (options: ListCallbacksOptions) => (await import('../callbacks.ts')).listCallbacks(options))
  callbacks
    .command('show')
    .description('one callback with each of its attempts')
    .argument('<job-id>', 'whose callback')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley callbacks show 019a5d3e-…'))
    .action(async (jobId: string, options: Plain) =>
      (await import('../callbacks.ts')).showCallback(jobId, options),
    )
  callbacks
    .command('replay')
    .description('have a callback sent again now, with all its attempts before it')
    .argument('[job-id]', 'whose callback, whatever its state')
    .option('--all-failed', 'all that failed for good instead')
    .option('--account <name>', 'of these, only those of this account')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      examples('parley callbacks replay 019a5d3e-…', 'parley callbacks replay --all-failed --account acme'),
    )
    .action(async (jobId: string | undefined, options: ReplayOptions) =>
      (await import('../callbacks.ts')).replayCallbacks(jobId, options),
    )
}
