/** The options of `parley callbacks`. */
import { type Command, Option } from 'commander'
import { CALLBACK_STATES } from '../../store/callback-store.ts'
import type { ListCallbacksOptions, ReplayOptions } from '../callbacks.ts'
import { numberFrom } from '../number-option.ts'
import { config, type DefaultOptions, examples, MAX_ROWS } from './shared-options.ts'

export function addCallbacks(callbacks: Command): void {
  callbacks
    .command('list')
    .description('list callbacks, newest job first')
    .option('--failed', 'only callbacks that failed permanently')
    .addOption(
      new Option('--state <state>', 'only callbacks in this state')
        .choices([...CALLBACK_STATES])
        .conflicts('failed'),
    )
    .option('--account <name>', 'only callbacks of this account')
    .option('--before <job-id>', 'only callbacks of jobs before this job')
    .option('--limit <count>', 'list at most this many', numberFrom(1, MAX_ROWS), 50)
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText('after', examples('parley callbacks list --failed --account acme'))
    .action(async (options: ListCallbacksOptions) => (await import('../callbacks.ts')).listCallbacks(options))
  callbacks
    .command('show')
    .description('show a callback with all of its attempts')
    .argument('<job-id>', 'the ID of its job')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley callbacks show 019a5d3e-…'))
    .action(async (jobId: string, options: DefaultOptions) =>
      (await import('../callbacks.ts')).showCallback(jobId, options),
    )
  callbacks
    .command('replay')
    .description('send a callback again now, with the full number of attempts')
    .argument('[job-id]', 'the ID of its job; the callback may be in any state')
    .option('--all-failed', 'replay all callbacks that failed permanently')
    .option('--account <name>', 'with --all-failed: only callbacks of this account')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      examples('parley callbacks replay 019a5d3e-…', 'parley callbacks replay --all-failed --account acme'),
    )
    .action(async (jobId: string | undefined, options: ReplayOptions) =>
      (await import('../callbacks.ts')).replayCallbacks(jobId, options),
    )
}
