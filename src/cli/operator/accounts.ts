/** What `parley accounts` takes. */
import { Argument, type Command } from 'commander'
import { TIER_NAMES, type TierName } from '../../job/tier.ts'
import type { CapOptions, ListAccountsOptions } from '../accounts.ts'
import type { DeleteAccountOptions } from '../delete-account.ts'
import { capOption, config, examples, noScrub, type Plain, SCRUB_HELP } from './parts.ts'

export function addAccounts(accounts: Command): void {
  accounts
    .command('list')
    .description('all accounts, by name')
    .option('--json', 'as a JSON array')
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
    .option('--rotate', 'make a new secret; the old one signs beside it for 24 hours')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts secret acme', 'parley accounts secret acme --rotate'))
    .action(async (name: string, options: Plain & { rotate?: true }) =>
      (await import('../accounts.ts')).rotateOrPrintSecret(name, options),
    )
  accounts
    .command('tier')
    .description('move an account to another tier')
    .argument('<name>', 'the account')
    .addArgument(new Argument('<tier>', 'the new tier').choices([...TIER_NAMES]))
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts tier acme user_max'))
    .action(async (name: string, tier: TierName, options: Plain) =>
      (await import('../accounts.ts')).setTier(name, tier, options),
    )
  addStanding(accounts)
  addDelete(accounts)
}

function addStanding(accounts: Command): void {
  accounts
    .command('suspend')
    .description('let an account create no jobs; it may still read them')
    .argument('<name>', 'the account')
    .option('--cancel', 'also cancel its jobs that wait or run; takes 3 seconds')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts suspend acme', 'parley accounts suspend acme --cancel'))
    .action(async (name: string, options: Plain & { cancel?: true }) =>
      (await import('../accounts.ts')).suspend(name, options),
    )
  accounts
    .command('resume')
    .description('let a suspended account create jobs again')
    .argument('<name>', 'the account')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts resume acme'))
    .action(async (name: string, options: Plain) => (await import('../accounts.ts')).resume(name, options))
  accounts
    .command('cap')
    .description('set how much an account may use in a calendar month (UTC)')
    .argument('<name>', 'the account')
    .option('--jobs <cap>', 'a number of jobs, none for no end, or tier for what its tier says', capOption)
    .option('--tokens <cap>', 'the same of tokens, input and output together', capOption)
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', '\nWhat is not named stays as it is.')
    .addHelpText(
      'after',
      examples('parley accounts cap acme --jobs 10000', 'parley accounts cap acme --jobs tier --tokens none'),
    )
    .action(async (name: string, options: CapOptions) => (await import('../accounts.ts')).cap(name, options))
}

function addDelete(accounts: Command): void {
  accounts
    .command('delete')
    .description('delete an account with its keys, jobs, secrets and usage, for good')
    .argument('<name>', 'the account')
    .option('--yes', 'do not ask')
    .addOption(noScrub())
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      `
Jobs that wait or run are cancelled first. Without --yes the account's name is asked for on the terminal.
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
