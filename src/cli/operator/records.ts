/** The options of `parley usage` and `parley audit`. */
import { type Command, Option } from 'commander'
import type { AuditOptions } from '../audit.ts'
import { numberFrom } from '../number-option.ts'
import type { UsageOptions } from '../usage.ts'
import { config, examples, MAX_ROWS, monthOption } from './shared-options.ts'

export function addRecords(program: Command): void {
  program
    .command('usage')
    .description('list usage by month, account and model')
    .option('--account <name>', 'only usage of this account')
    .option('--month <month>', 'only this month in UTC, in the form YYYY-MM', monthOption)
    .option('--json', 'print a JSON array')
    .addOption(new Option('--csv', 'print comma-separated values with a header line').conflicts('json'))
    .addOption(config())
    .addHelpText(
      'after',
      examples('parley usage --account acme', 'parley usage --month 2026-11 --csv > 2026-11.csv'),
    )
    .action(async (options: UsageOptions) => (await import('../usage.ts')).usage(options))
  program
    .command('audit')
    .description('list the audit log of admin actions, newest first')
    .option('--account <name>', 'only actions on this account')
    .option('--before <id>', 'only entries before this one')
    .option('--limit <count>', 'list at most this many', numberFrom(1, MAX_ROWS), 50)
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText('after', examples('parley audit --account acme', 'parley audit --limit 10 --json'))
    .action(async (options: AuditOptions) => (await import('../audit.ts')).audit(options))
}
