/** The options of `parley accounts`. */
import { Argument, type Command } from 'commander'
import { TIER_NAMES, type TierName } from '../../job/tier.ts'
import type { CapOptions, ListAccountsOptions } from '../accounts.ts'
import type { DeleteAccountOptions } from '../delete-account.ts'
import { capOption, config, type DefaultOptions, examples, noScrub, SCRUB_HELP } from './shared-options.ts'

export function addAccounts(accounts: Command): void {
  accounts
    .command('list')
    .description('list all accounts, by name')
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText(
      'after',
      examples("parley accounts list --json | jq -r '.[] | select(.suspended_at) | .name'"),
    )
    .action(async (options: ListAccountsOptions) => (await import('../accounts.ts')).listAccounts(options))
  accounts
    .command('secret')
    .description("print the secret that signs an account's callbacks")
    .argument('<name>', 'the account')
    .option('--rotate', 'create a new secret; the old one remains valid for 24 hours')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts secret acme', 'parley accounts secret acme --rotate'))
    .action(async (name: string, options: DefaultOptions & { rotate?: true }) =>
      (await import('../accounts.ts')).rotateOrPrintSecret(name, options),
    )
  accounts
    .command('tier')
    .description('move an account to another tier')
    .argument('<name>', 'the account')
    .addArgument(new Argument('<tier>', 'the new tier').choices([...TIER_NAMES]))
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts tier acme user_max'))
    .action(async (name: string, tier: TierName, options: DefaultOptions) =>
      (await import('../accounts.ts')).setTier(name, tier, options),
    )
  addModeration(accounts)
  addDelete(accounts)
}

function addModeration(accounts: Command): void {
  accounts
    .command('suspend')
    .description('suspend an account: it cannot create jobs, but can still read them')
    .argument('<name>', 'the account')
    .option('--cancel', 'also cancel its queued and running jobs; takes 3 seconds')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts suspend acme', 'parley accounts suspend acme --cancel'))
    .action(async (name: string, options: DefaultOptions & { cancel?: true }) =>
      (await import('../accounts.ts')).suspend(name, options),
    )
  accounts
    .command('resume')
    .description('resume a suspended account: it can create jobs again')
    .argument('<name>', 'the account')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts resume acme'))
    .action(async (name: string, options: DefaultOptions) =>
      (await import('../accounts.ts')).resume(name, options),
    )
  accounts
    .command('cap')
    .description('set the monthly caps of an account (calendar months in UTC) and its quotas')
    .argument('<name>', 'the account')
    .option('--jobs <cap>', "a number of jobs, none for no cap, or tier for the tier's cap", capOption)
    .option('--tokens <cap>', 'the same for tokens, input and output together', capOption)
    .option('--open-jobs <quota>', 'the same for jobs that are queued or running at the same time', capOption)
    .option('--stored-bytes <quota>', 'the same for bytes that its jobs store', capOption)
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', '\nCaps and quotas that you do not pass remain unchanged.')
    .addHelpText(
      'after',
      examples(
        'parley accounts cap acme --jobs 10000',
        'parley accounts cap acme --jobs tier --tokens none',
        'parley accounts cap acme --open-jobs 500 --stored-bytes 1073741824',
      ),
    )
    .action(async (name: string, options: CapOptions) => (await import('../accounts.ts')).cap(name, options))
}

function addDelete(accounts: Command): void {
  accounts
    .command('delete')
    .description('permanently delete an account with its keys, jobs, secrets and usage')
    .argument('<name>', 'the account')
    .option('--yes', 'do not ask for confirmation')
    .addOption(noScrub())
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      `
Queued and running jobs are cancelled first. Without --yes the command asks you to type the account's name.
${SCRUB_HELP}`,
    )
    .addHelpText(
      'after',
      examples('parley accounts delete acme', 'parley accounts delete acme --yes --no-scrub'),
    )
    .action(async (name: string, options: DeleteAccountOptions) =>
      (await import('../delete-account.ts')).deleteAccount(name, options),
    )
}
