/** Declares the commands that run a server or use its database. The code of a command is loaded only when the command runs. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { accountActions } from '../admin/actions/accounts.ts'
import { callbackActions } from '../admin/actions/callbacks.ts'
import { jobActions, scrub } from '../admin/actions/jobs.ts'
import { keyActions } from '../admin/actions/keys.ts'
import { tokenActions } from '../admin/actions/tokens.ts'
import { MAX_THREADS, ROLES } from '../config/allowed-values.ts'
import { CALLBACK_STATES } from '../store/callback-store.ts'
import { addActionCommand } from './action-command.ts'
import type { ListCallbacksOptions } from './callbacks.ts'
import type { CheckOptions } from './check/check.ts'
import { addJobList } from './client-commands.ts'
import type { CopyOptions } from './copy.ts'
import type { BackupOptions } from './database.ts'
import type { ListenOptions } from './listen/listen.ts'
import { isSecret } from './listen/verify.ts'
import type { AuditOptions, UsageOptions } from './lists.ts'
import {
  config,
  type DefaultOptions,
  examples,
  MAX_ROWS,
  monthOption,
  numberFrom,
  usageKeysOption,
} from './options.ts'
import type { ServeOptions } from './serve.ts'

const DEFAULT_PORT = 9000
const MAX_PORT = 65_535
/** The server waits no longer than this before a retry, whatever Retry-After requests. */
const MAX_RETRY_AFTER_S = 86_400
const MAX_FAILURES = 1_000_000

const LISTEN_HELP = `
Callbacks are verified with the secret in --secret or PARLEY_CALLBACK_SECRET. If neither is set, it is the secret of
--account in the configured database. Without a secret, callbacks are printed as not verified.

Callbacks that fail verification get a 401 response, all others 200. To see how failures are retried:
  parley listen --fail-first 2                                 500 twice, then 200
  parley listen --status 410                                   always 410: the server gives up
  parley listen --status 429 --retry-after 3 --fail-first 1    429 once, with Retry-After: 3

Allow loopback addresses in the server's parley.config.json: "callbacks": { "allow_networks": ["127.0.0.0/8"] }`

export function addOperatorCommands(program: Command, exit: (code: number) => void): void {
  addServe(program, exit)
  addCheck(program, exit)
  addDatabase(program)
  addBackup(program)
  addAccess(
    program.command('keys').description('create, list, rotate and revoke API keys'),
    program.command('tokens').description('create, list and revoke admin tokens'),
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
  addListen(program)
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
      ...examples(
        'parley serve                                    on http://127.0.0.1:8080, with ./data/parley.db',
        'PORT=9090 OPENAI_API_KEY=sk-… parley serve',
        'DATABASE_URL=postgres://db/parley parley serve --role worker',
      ),
    )
    .action(async (options: ServeOptions) => exit(await (await import('./serve.ts')).serve(options)))
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
      ...examples(
        'parley check',
        'parley check --calls                            5 paid calls to each model',
        'parley check --config production.json && parley serve',
      ),
    )
    .action(async (options: CheckOptions) => exit(await (await import('./check/check.ts')).check(options)))
}

function addDatabase(program: Command): void {
  program
    .command('migrate')
    .description('bring the database schema up to date')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText(...examples('parley migrate', 'DATABASE_URL=postgres://db/parley parley migrate'))
    .action(async (options: DefaultOptions) => (await import('./database.ts')).migrate(options))
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
PARLEY_FROM_PASSWORD and PARLEY_TO_PASSWORD, or pass files that contain it.`,
    )
    .addHelpText(
      ...examples(
        'parley copy --from sqlite:./data/parley.db --to postgres://parley@db/parley --to-password-file ./password',
        'read -rs PARLEY_TO_PASSWORD && export PARLEY_TO_PASSWORD',
      ),
    )
    .action(async (options: CopyOptions) => (await import('./copy.ts')).copy(options))
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
      ...examples('parley backup /backups/parley.db', 'parley backup /backups/parley-$(date +%F).db --json'),
    )
    .action(async (file: string, options: BackupOptions) =>
      (await import('./database.ts')).backUp(file, options),
    )
  program
    .command('restore')
    .description('replace the database with a backup; no server may be running')
    .argument('<file>', 'a file that `parley backup` wrote')
    .option('--force', 'also replace a database that is not empty; the old one is kept next to it')
    .option('--json', 'print the contents of the backup as a JSON object')
    .addOption(config())
    .addHelpText(
      ...examples(
        'parley restore /backups/parley.db',
        'DATABASE_URL=sqlite:/tmp/try/parley.db parley restore /backups/parley.db',
      ),
    )
    .action(async (file: string, options: BackupOptions) =>
      (await import('./database.ts')).restore(file, options),
    )
}

function addAccess(keys: Command, tokens: Command, accounts: Command): void {
  const [createKey, ...otherKeyActions] = keyActions
  addActionCommand(keys, createKey)
  const keysExample = "parley keys list --json | jq -r '.[] | select(.revoked_at == null) | .id'"
  addList(keys, 'list all keys, oldest first', keysExample, async (options) =>
    (await import('./lists.ts')).listKeys(options),
  )
  for (const action of otherKeyActions) addActionCommand(keys, action)
  const [createToken, ...otherTokenActions] = tokenActions
  addActionCommand(tokens, createToken)
  const tokensExample = "parley tokens list --json | jq -r '.[] | select(.revoked_at == null) | .name'"
  addList(tokens, 'list the admin tokens that operators created', tokensExample, async (options) =>
    (await import('./lists.ts')).listTokens(options),
  )
  for (const action of otherTokenActions) addActionCommand(tokens, action)
  const accountsExample = "parley accounts list --json | jq -r '.[] | select(.suspended_at) | .name'"
  addList(accounts, 'list all accounts, by name', accountsExample, async (options) =>
    (await import('./lists.ts')).listAccounts(options),
  )
  const [setTier, getSecret, ...otherAccountActions] = accountActions
  for (const action of [getSecret, setTier, ...otherAccountActions]) addActionCommand(accounts, action)
}

function addList(
  group: Command,
  description: string,
  example: string,
  list: (options: DefaultOptions) => Promise<void>,
): void {
  group
    .command('list')
    .description(description)
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText(...examples(example))
    .action(list)
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
    .addHelpText(...examples('parley callbacks list --failed --account acme'))
    .action(async (options: ListCallbacksOptions) => (await import('./callbacks.ts')).listCallbacks(options))
  callbacks
    .command('show')
    .description('show a callback with all of its attempts')
    .argument('<job-id>', 'the ID of its job')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText(...examples('parley callbacks show 019a5d3e-…'))
    .action(async (jobId: string, options: DefaultOptions) =>
      (await import('./callbacks.ts')).showCallback(jobId, options),
    )
  for (const action of callbackActions) addActionCommand(callbacks, action)
}

function addListen(program: Command): void {
  const command = program.command('listen')
  command
    .description('receive, verify and print callbacks on this machine, for development')
    .option('--port <port>', 'port on 127.0.0.1; 0 picks a free one', numberFrom(0, MAX_PORT), DEFAULT_PORT)
    .option('--secret <secret>', 'the secret (whsec_…) that `parley accounts secret NAME` prints', secretOf)
    .option('--account <name>', 'the account whose secret is looked up', 'default')
    .option('--status <code>', 'respond to every callback with this status', numberFrom(200, 599))
    .option(
      '--retry-after <seconds>',
      'with --status or --fail-first: send this Retry-After',
      numberFrom(0, MAX_RETRY_AFTER_S),
    )
    .option(
      '--fail-first <count>',
      'respond only to this many callbacks with --status (default: 500)',
      numberFrom(1, MAX_FAILURES),
    )
    .option('--json', 'print each callback as one line of JSON; everything else goes to standard error')
    .addOption(config())
    .addHelpText('after', LISTEN_HELP)
    .action(async (options: ListenOptions) => {
      if (
        options.retryAfter !== undefined &&
        options.status === undefined &&
        options.failFirst === undefined
      ) {
        command.error(
          'error: --retry-after needs --status or --fail-first, because a delivered callback is not retried',
        )
      }
      const { listen } = await import('./listen/listen.ts')
      await listen(options)
    })
}

function secretOf(text: string): string {
  if (!isSecret(text)) {
    throw new InvalidArgumentError(
      'It must be whsec_ followed by base64. `parley accounts secret NAME` prints the secret.',
    )
  }
  return text
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
      ...examples(
        'parley usage --account acme',
        'parley usage --month 2026-11 --csv > 2026-11.csv',
        'parley usage --by account,model --json',
        'parley usage --by account,metadata.customer --month 2026-11 --csv',
      ),
    )
    .action(async (options: UsageOptions) => (await import('./lists.ts')).usage(options))
  program
    .command('audit')
    .description('list the audit log of admin actions, newest first')
    .option('--account <name>', 'only actions on this account')
    .option('--before <id>', 'only entries before this one')
    .option('--limit <count>', 'list at most this many', numberFrom(1, MAX_ROWS), 50)
    .option('--json', 'print a JSON array')
    .addOption(config())
    .addHelpText(...examples('parley audit --account acme', 'parley audit --limit 10 --json'))
    .action(async (options: AuditOptions) => (await import('./lists.ts')).audit(options))
}
