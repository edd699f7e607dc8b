/** What `parley usage` and `parley audit` take. */
import { type Command, Option } from 'commander'
import type { AuditOptions } from '../audit.ts'
import { numberFrom } from '../number-option.ts'
import type { UsageOptions } from '../usage.ts'
import { config, examples, MOST_LISTED, monthOption } from './parts.ts'

export function addRecords(program: Command): void {
  program
    .command('usage')
    .description('what accounts have used, by month, account and model')
    .option('--account <name>', 'only what this account used')
    .option('--month <month>', 'only this month in UTC, as YYYY-MM', monthOption)
    .option('--json', 'as a JSON array')
    .addOption(new Option('--csv', 'as comma-separated values, with a line of names first').conflicts('json'))
    .addOption(config())
    .addHelpText(
      'after',
      examples('parley usage --account acme', 'parley usage --month 2026-11 --csv > 2026-11.csv'),
    )
    .action(async (options: UsageOptions) => (await import('../usage.ts')).usage(options))
  program
    .command('audit')
    .description('the audit log: who did what, newest first')
    .option('--account <name>', 'only what was done to this account')
    .option('--before <id>', 'only what was done before this act')
    .option('--limit <count>', 'how many at most', numberFrom(1, MOST_LISTED), 50)
    .option('--json', 'as a JSON array')
    .addOption(config())
    .addHelpText('after', examples('parley audit --account acme', 'parley audit --limit 10 --json'))
    .action(async (options: AuditOptions) => (await import('../audit.ts')).audit(options))
}
