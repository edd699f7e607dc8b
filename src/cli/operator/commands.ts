/** Declares the commands for operators. Each is implemented in a file that is loaded only when the command runs. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { accountActions } from '../../admin/actions/accounts.ts'
import { callbackActions } from '../../admin/actions/callbacks.ts'
import { jobActions, scrub } from '../../admin/actions/jobs.ts'
import { keyActions } from '../../admin/actions/keys.ts'
import { tokenActions } from '../../admin/actions/tokens.ts'
import { MAX_THREADS, ROLES } from '../../config/allowed-values.ts'
import { CALLBACK_STATES } from '../../store/callback-store.ts'
import { addJobList } from '../call/options.ts'
import type { ListCallbacksOptions } from '../callbacks.ts'
import type { CheckOptions } from '../check/check.ts'
import type { CopyOptions } from '../copy.ts'
import { FROM_PASSWORD, TO_PASSWORD } from '../copy-passwords.ts'
import type { BackupOptions } from '../database.ts'
import { addListen } from '../listen/options.ts'
import type { AuditOptions, UsageOptions } from '../lists.ts'
import type { ServeOptions } from '../serve.ts'
import { addActionCommand } from './action-command.ts'
import {
  config,
  type DefaultOptions,
  examples,
  MAX_ROWS,
  monthOption,
  numberFrom,
  usageKeysOption,
} from './shared-options.ts'

export function addOperatorCommands(program: Command, exit: (code: number) => void): void {
  addServe(program, exit)
  addCheck(program, exit)
  addDatabase(program)
  addBackup(program)
  addKeys(program.command('keys').description('create, list, rotate and revoke API keys'))
  addTokens(program.command('tokens').description('create, list and revoke admin tokens'))
  addAccounts(
    program
      .command('accounts')
      .description(
        'list accounts; set tiers and caps; show callback secrets; suspend, resume and delete accounts',
      ),
  )
  const jobs = program
    .command('jobs')
    .description('list your jobs over HTTP; cancel and delete jobs of any account')
  addJobList(jobs.command('list'), exit)
  for (const action of jobActions) addActionCommand(jobs, action)
  addCallbacks(program.command('callbacks').description('list, show and replay callbacks'))
  addListen(program.command('listen'), config)
  addRecords(program)
}

function addServe(program: Command, exit: (code: number) => void): void {
  program
    .command('serve')
    .description('start the server')
    .addOption(config())
    .addOption(
      new Option(
        '--role <role>',
        'api accepts jobs and serves requests; worker runs jobs; both need a shared database',
      )
        .choices([...ROLES])
        .default('all'),
    )
    .addOption(
      new Option('--threads <number>', 'has no effect; accepted for compatibility with 0.3').argParser(
        threadsOf,
      ),
    )
    .addHelpText(
      'after',
      examples(
        'parley serve                                    on http://127.0.0.1:8080, with ./data/parley.db',
        'PORT=9090 OPENAI_API_KEY=sk-… parley serve',
        'DATABASE_URL=postgres://db/parley parley serve --role worker',
      ),
    )
    .action(async (options: ServeOptions) => exit(await (await import('../serve.ts')).serve(options)))
}

function threadsOf(text: string): number | 'auto' {
  if (text === 'auto') return text
  if (!/^[1-9]\d?$/.test(text) || Number(text) > MAX_THREADS) {
    throw new InvalidArgumentError(`It must be auto or a whole number from 1 to ${MAX_THREADS}.`)
  }
  return Number(text)
}

function addCheck(program: Command, exit: (code: number) => void): void {
  program
    .command('check')
    .description('check the configuration and the connections to the database and the model servers')
    .option('--json', 'print the findings as a JSON array')
    .option('--calls', 'also make paid calls to each model: a short answer, roles, JSON, two at once')
    .addOption(config())
    .addHelpText(
      'after',
      examples(
        'parley check',
        'parley check --calls                            5 paid calls to each model',
        'parley check --config production.json && parley serve',
      ),
    )
    .action(async (options: CheckOptions) => exit(await (await import('../check/check.ts')).check(options)))
}

function addDatabase(program: Command): void {
  program
    .command('migrate')
    .description('bring the database schema up to date')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley migrate', 'DATABASE_URL=postgres://db/parley parley migrate'))
    .action(async (options: DefaultOptions) => (await import('../database.ts')).migrate(options))
  program
    .command('copy')
    .description('copy accounts, keys and jobs into another, empty database')
    .requiredOption('--from <database>', 'sqlite:PATH or postgres://…; must not be in use by a server')
    .requiredOption('--to <database>', 'sqlite:PATH or postgres://…; it must be empty')
    .option(
      '--from-password-file <file>',
      'read the password of the Postgres --from from the first line of a file',
    )
    .option('--to-password-file <file>', 'the same for --to')
    .option('--json', 'print what was copied as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      `
Other users of the machine can see the arguments of your commands, so do not put a password into --from or --to. Set it in
${FROM_PASSWORD} and ${TO_PASSWORD}, or pass files that contain it.`,
    )
    .addHelpText(
      'after',
      examples(
        'parley copy --from sqlite:./data/parley.db --to postgres://parley@db/parley --to-password-file ./password',
        `read -rs ${TO_PASSWORD} && export ${TO_PASSWORD}`,
      ),
    )
    .action(async (options: CopyOptions) => (await import('../copy.ts')).copy(options))
  addActionCommand(program, scrub)
}

function addBackup(program: Command): void {
  program
    .command('backup')
    .description('copy the whole database into one file; a server may be running')
    .argument('<file>', 'the backup file; its folder must exist')
    .option('--force', 'replace the file if it exists')
    .option('--json', 'print the contents of the backup as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      examples('parley backup /backups/parley.db', 'parley backup /backups/parley-$(date +%F).db --json'),
    )
    .action(async (file: string, options: BackupOptions) =>
      (await import('../database.ts')).backUp(file, options),
    )
  program
    .command('restore')
    .description('replace the database with a backup; no server may be running')
    .argument('<file>', 'a file that `parley backup` wrote')
    .option('--force', 'also replace a database that is not empty; the old one is kept next to it')
    .option('--json', 'print the contents of the backup as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      examples(
        'parley restore /backups/parley.db',
        'DATABASE_URL=sqlite:/tmp/try/parley.db parley restore /backups/parley.db',
      ),
    )
    .action(async (file: string, options: BackupOptions) =>
      (await import('../database.ts')).restore(file, options),
    )
}

function addKeys(keys: Command): void {
  const [create, ...others] = keyActions
  addActionCommand(keys, create)
  keys
    .command('list')
    .description('list all keys, oldest first')
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText(
      'after',
      examples("parley keys list --json | jq -r '.[] | select(.revoked_at == null) | .id'"),
    )
    .action(async (options: DefaultOptions) => (await import('../lists.ts')).listKeys(options))
  for (const action of others) addActionCommand(keys, action)
}

function addTokens(tokens: Command): void {
  const [create, ...others] = tokenActions
  addActionCommand(tokens, create)
  tokens
    .command('list')
    .description('list the admin tokens that operators created')
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText(
      'after',
      examples("parley tokens list --json | jq -r '.[] | select(.revoked_at == null) | .name'"),
    )
    .action(async (options: DefaultOptions) => (await import('../lists.ts')).listTokens(options))
  for (const action of others) addActionCommand(tokens, action)
}

function addAccounts(accounts: Command): void {
  accounts
    .command('list')
    .description('list all accounts, by name')
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText(
      'after',
      examples("parley accounts list --json | jq -r '.[] | select(.suspended_at) | .name'"),
    )
    .action(async (options: DefaultOptions) => (await import('../lists.ts')).listAccounts(options))
  const [setTier, getSecret, ...others] = accountActions
  for (const action of [getSecret, setTier, ...others]) addActionCommand(accounts, action)
}

function addCallbacks(callbacks: Command): void {
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
  for (const action of callbackActions) addActionCommand(callbacks, action)
}

function addRecords(program: Command): void {
  program
    .command('usage')
    .description('list usage by month, account and model')
    .option('--account <name>', 'only usage of this account')
    .option('--month <month>', 'only this month in UTC, in the form YYYY-MM', monthOption)
    .option(
      '--by <keys>',
      'group by these, separated by commas: month, account, model, metadata.KEY',
      usageKeysOption,
    )
    .option('--json', 'print a JSON array')
    .addOption(new Option('--csv', 'print comma-separated values with a header line').conflicts('json'))
    .addOption(config())
    .addHelpText(
      'after',
      examples(
        'parley usage --account acme',
        'parley usage --month 2026-11 --csv > 2026-11.csv',
        'parley usage --by account,model --json',
        'parley usage --by account,metadata.customer --month 2026-11 --csv',
      ),
    )
    .action(async (options: UsageOptions) => (await import('../lists.ts')).usage(options))
  program
    .command('audit')
    .description('list the audit log of admin actions, newest first')
    .option('--account <name>', 'only actions on this account')
    .option('--before <id>', 'only entries before this one')
    .option('--limit <count>', 'list at most this many', numberFrom(1, MAX_ROWS), 50)
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText('after', examples('parley audit --account acme', 'parley audit --limit 10 --json'))
    .action(async (options: AuditOptions) => (await import('../lists.ts')).audit(options))
}
