/** The options of `parley keys`. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { MOST_DAYS } from '../../accounts/key-lifetime.ts'
import { TIER_NAMES } from '../../job/tier.ts'
import type { CreateKeyOptions } from '../keys.ts'
import { config, type DefaultOptions, examples } from './shared-options.ts'

export function addKeys(keys: Command): void {
  keys
    .command('create')
    .description('create and print a key; the account is created if it does not exist')
    .requiredOption('--account <name>', 'the account that the key belongs to')
    .addOption(
      new Option('--tier <tier>', 'tier of the account').choices([...TIER_NAMES]).makeOptionMandatory(),
    )
    .option('--expires <days>', 'days until the key expires (default: never)', daysOf)
    .option('--json', 'print a JSON object')
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
    .description('list all keys, oldest first')
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText(
      'after',
      examples("parley keys list --json | jq -r '.[] | select(.revoked_at == null) | .id'"),
    )
    .action(async (options: DefaultOptions) => (await import('../keys.ts')).listKeys(options))
  keys
    .command('revoke')
    .description('revoke a key; a running server rejects it within a few seconds')
    .argument('<key-id>', 'the key ID that `parley keys list` shows')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley keys revoke key_019a…'))
    .action(async (keyId: string, options: DefaultOptions) =>
      (await import('../keys.ts')).revokeKey(keyId, options),
    )
}

function daysOf(text: string): number {
  const days = Number(text)
  if (!(days > 0 && days <= MOST_DAYS)) {
    throw new InvalidArgumentError(`It must be a positive number of at most ${MOST_DAYS}.`)
  }
  return days
}
