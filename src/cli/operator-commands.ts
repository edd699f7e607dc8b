/** The commands for whoever runs a server: what each takes. What it does is in a file of its own, loaded when it is called. */
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { MOST_DAYS } from '../account/key-days.ts'
import { TIER_NAMES, type TierName } from '../config/settings.ts'
import { CALLBACK_STATES } from '../store/callback-store.ts'
import { ROLES } from '../wiring/role.ts'
import type { BackupOptions } from './backup.ts'
import type { ListCallbacksOptions, ReplayOptions } from './callbacks.ts'
import type { CopyOptions } from './copy.ts'
import type { CreateKeyOptions } from './keys.ts'
import { addListen } from './listen/options.ts'
import { numberFrom } from './number-option.ts'
import type { ServeOptions } from './serve.ts'

const MOST_LISTED = 10_000

interface ConfigOption {
  readonly config?: string
}
type Plain = ConfigOption & { readonly json?: true }

export function addOperatorCommands(program: Command, exit: (code: number) => void): void {
  addServe(program, exit)
  addDatabase(program)
  addBackup(program)
  addKeys(program.command('keys').description('create, list and revoke API keys'))
  addAccounts(program.command('accounts').description('callback secrets and tiers'))
  addCallbacks(program.command('callbacks').description('what became of callbacks, and sending them again'))
  addListen(program.command('listen'), config)
}

function config(): Option {
  return new Option('--config <file>', 'configuration file (default: ./parley.config.json if there is one)')
}

function addServe(program: Command, exit: (code: number) => void): void {
  program
    .command('serve')
    .description('start the server')
    .addOption(config())
    .addOption(
      new Option('--role <role>', 'api: accept and answer; worker: run jobs; with a shared database')
        .choices([...ROLES])
        .default('all'),
    )
    .addHelpText(
      'after',
      examples(
        'parley serve                                    on http://127.0.0.1:8080, with ./data/parley.db',
        'PORT=9090 OPENAI_API_KEY=sk-… parley serve',
        'DATABASE_URL=postgres://db/parley parley serve --role worker',
      ),
    )
    .action(async (options: ServeOptions) => exit(await (await import('./serve.ts')).serve(options)))
  program
    .command('check')
    .description('validate the configuration and the connections')
    .option('--json', 'as a JSON array of findings')
    .addOption(config())
    .addHelpText('after', examples('parley check', 'parley check --config production.json && parley serve'))
    .action(async (options: Plain) => exit(await (await import('./check.ts')).check(options)))
}

function addDatabase(program: Command): void {
  program
    .command('migrate')
    .description('bring the database schema up to date')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley migrate', 'DATABASE_URL=postgres://db/parley parley migrate'))
    .action(async (options: Plain) => (await import('./migrate.ts')).migrate(options))
  program
    .command('copy')
    .description('copy accounts, keys and jobs into another, empty database')
    .requiredOption('--from <database>', 'sqlite:PATH or postgres://…; no server may be using it')
    .requiredOption('--to <database>', 'sqlite:PATH or postgres://…; it must hold nothing')
    .option('--json', 'print what was copied as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley copy --from sqlite:./data/parley.db --to postgres://db/parley'))
    .action(async (options: CopyOptions) => (await import('./copy.ts')).copy(options))
}

function addBackup(program: Command): void {
  program
    .command('backup')
    .description('copy the whole database into one file, also beside a running server')
    .argument('<file>', 'where to; its folder must exist')
    .option('--force', 'replace the file if it is there')
    .option('--json', 'print what it holds as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      examples('parley backup /backups/parley.db', 'parley backup /backups/parley-$(date +%F).db --json'),
    )
    .action(async (file: string, options: BackupOptions) =>
      (await import('./backup.ts')).backUp(file, options),
    )
  program
    .command('restore')
    .description("put a backup in the database's place; no server may be using that")
    .argument('<file>', 'what `parley backup` wrote')
    .option('--force', 'also in the place of a database that holds something, which is kept beside it')
    .option('--json', 'print what it holds as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      examples(
        'parley restore /backups/parley.db',
        'DATABASE_URL=sqlite:/tmp/try/parley.db parley restore /backups/parley.db',
      ),
    )
    .action(async (file: string, options: BackupOptions) =>
      (await import('./restore.ts')).restore(file, options),
    )
}

function addKeys(keys: Command): void {
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
    .action(async (options: CreateKeyOptions) => (await import('./keys.ts')).createKey(options))
  keys
    .command('list')
    .description('all keys, oldest first')
    .option('--json', 'as a JSON array')
    .addOption(config())
    .addHelpText(
      'after',
      examples("parley keys list --json | jq -r '.[] | select(.revoked_at == null) | .id'"),
    )
    .action(async (options: Plain) => (await import('./keys.ts')).listKeys(options))
  keys
    .command('revoke')
    .description('end a key; a running server stops taking it within seconds')
    .argument('<key-id>', 'the id that `parley keys list` shows')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley keys revoke key_019a…'))
    .action(async (keyId: string, options: Plain) => (await import('./keys.ts')).revokeKey(keyId, options))
}

function addAccounts(accounts: Command): void {
  accounts
    .command('secret')
    .description("print the secret that signs an account's callbacks")
    .argument('<name>', 'the account')
    .option('--rotate', 'make a new secret; the old one signs beside it for 24 hours')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley accounts secret acme', 'parley accounts secret acme --rotate'))
    .action(async (name: string, options: Plain & { rotate?: true }) =>
      (await import('./accounts.ts')).rotateOrPrintSecret(name, options),
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
      (await import('./accounts.ts')).setTier(name, tier, options),
    )
}

function addCallbacks(callbacks: Command): void {
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
    .action(async (options: ListCallbacksOptions) => (await import('./callbacks.ts')).listCallbacks(options))
  callbacks
    .command('show')
    .description('one callback with each of its attempts')
    .argument('<job-id>', 'whose callback')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley callbacks show 019a5d3e-…'))
    .action(async (jobId: string, options: Plain) =>
      (await import('./callbacks.ts')).showCallback(jobId, options),
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
      (await import('./callbacks.ts')).replayCallbacks(jobId, options),
    )
}

function examples(...lines: readonly string[]): string {
  const title = lines.length === 1 ? 'Example' : 'Examples'
  return `\n${title}:\n${lines.map((line) => `  ${line}`).join('\n')}`
}

function daysOf(text: string): number {
  const days = Number(text)
  if (!(days > 0 && days <= MOST_DAYS)) {
    throw new InvalidArgumentError(`It must be a positive number, ${MOST_DAYS} at most.`)
  }
  return days
}
