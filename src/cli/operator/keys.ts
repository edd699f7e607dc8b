/** What `parley keys` takes. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { MOST_DAYS } from '../../accounts/key-lifetime.ts'
import { TIER_NAMES } from '../../job/tier.ts'
import type { CreateKeyOptions } from '../keys.ts'
import { config, examples, type Plain } from './parts.ts'

export function addKeys(keys: Command): void {
  keys
    .command('create')
    .description('print a new key; makes the account if it is new')
    .requiredOption('--account <name>', 'whose key')
    .addOption(
      new Option('--tier <tier>', 'tier of the account').choices([...TIER_NAMES]).makeOptionMandatory(),
    )
    .option('--expires <days>', 'days until the key ends (default: never)', daysOf)
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      examples(
        'parley keys create --account acme --tier user_pro',
        'PARLEY_API_KEY=$(parley keys create --account ci --tier user_go --expires 30)',
      ),
    )
    .action(async (options: CreateKeyOptions) => (await import('../keys.ts')).createKey(options))
  keys
    .command('list')
    .description('all keys, oldest first')
    .option('--json', 'as a JSON array')
    .addOption(config())
    .addHelpText(
      'after',
      examples("parley keys list --json | jq -r '.[] | select(.revoked_at == null) | .id'"),
    )
    .action(async (options: Plain) => (await import('../keys.ts')).listKeys(options))
  keys
    .command('revoke')
    .description('end a key; a running server stops taking it within seconds')
    .argument('<key-id>', 'the id that `parley keys list` shows')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley keys revoke key_019a…'))
    .action(async (keyId: string, options: Plain) => (await import('../keys.ts')).revokeKey(keyId, options))
}

function daysOf(text: string): number {
  const days = Number(text)
  if (!(days > 0 && days <= MOST_DAYS)) {
    throw new InvalidArgumentError(`It must be a positive number, ${MOST_DAYS} at most.`)
  }
  return days
}
