/** The command line: which commands there are, and what they take. What each does is in a file of its own. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { ConfigurationError } from '../config/load.ts'
import { TIER_NAMES, type TierName } from '../config/settings.ts'
import { CALLBACK_STATES } from '../store/callback-store.ts'
import { DatabaseProblem } from '../store/database-problem.ts'
import { VERSION } from '../version.ts'
import { ROLES } from '../wiring/node.ts'
import { rotateOrPrintSecret, setTier } from './accounts.ts'
import {
  type ListCallbacksOptions,
  listCallbacks,
  MOST_LISTED,
  type ReplayOptions,
  replayCallbacks,
  showCallback,
} from './callbacks.ts'
import { check } from './check.ts'
import { CommandError } from './command-error.ts'
import { type CopyOptions, copy } from './copy.ts'
import { createKey, listKeys, revokeKey } from './keys.ts'
import { addListen } from './listen/options.ts'
import { migrate } from './migrate.ts'
import { say, sayError } from './say.ts'
import { type ServeOptions, serve } from './serve.ts'

/** How far off a key may end: a hundred years. */
const MOST_DAYS = 36_500

/** Runs the arguments; resolves with the exit code. Errors of use and of configuration are told in a few words. */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  let exitCode = 0
  const program = build((code) => {
    exitCode = code
  })
  try {
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode
    if (!isForPeople(error)) throw error
    sayError(error.message)
    return 1
  }
  return exitCode
}

function isForPeople(error: unknown): error is Error {
  return (
    error instanceof CommandError || error instanceof ConfigurationError || error instanceof DatabaseProblem
  )
}

function build(exit: (code: number) => void): Command {
  const program = new Command('parley')
    .description(
      'Runs AI message jobs: the answer in the same response, by polling, or by a signed callback.',
    )
    .version(VERSION)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => say(text.trimEnd()),
      writeErr: (text) => sayError(text.trimEnd()),
    })
  const config = () =>
    new Option('--config <file>', 'configuration file (default: ./parley.config.json if there is one)')
  program
    .command('serve')
    .description('start the server')
    .addOption(config())
    .addOption(
      new Option('--role <role>', 'api: accept and answer; worker: run jobs; with a shared database')
        .choices([...ROLES])
        .default('all'),
    )
    .action(async (options: ServeOptions) => exit(await serve(options)))
  program
    .command('check')
    .description('validate the configuration and the connections')
    .addOption(config())
    .action(async (options: { config?: string }) => exit(await check(options.config)))
  program
    .command('migrate')
    .description('bring the database schema up to date')
    .addOption(config())
    .action((options: { config?: string }) => migrate(options.config))
  program
    .command('copy')
    .description('copy accounts, keys and jobs into another, empty database')
    .requiredOption('--from <database>', 'sqlite:PATH or postgres://…; no server may be using it')
    .requiredOption('--to <database>', 'sqlite:PATH or postgres://…; it must hold nothing')
    .addOption(config())
    .action((options: CopyOptions) => copy(options))
  addCallbacks(
    program.command('callbacks').description('what became of callbacks, and sending them again'),
    config,
  )
  addListen(program.command('listen'), config)
  addKeys(program.command('keys').description('create, list and revoke API keys'), config)
  addAccounts(program.command('accounts').description('callback secrets and tiers'), config)
  return program
}

function addKeys(keys: Command, config: () => Option): void {
  keys
    .command('create')
    .description('print a new key; makes the account if it is new')
    .requiredOption('--account <name>', 'whose key')
    .addOption(
      new Option('--tier <tier>', 'tier of the account').choices([...TIER_NAMES]).makeOptionMandatory(),
    )
    .option('--expires <days>', 'days until the key ends (default: never)', daysOf)
    .addOption(config())
    .action((options: { account: string; tier: TierName; expires?: number; config?: string }) =>
      createKey(options),
    )
  keys
    .command('list')
    .description('all keys, oldest first')
    .option('--json', 'as a JSON array')
    .addOption(config())
    .action((options: { json?: true; config?: string }) => listKeys(options))
  keys
    .command('revoke')
    .description('end a key; a running server stops taking it within seconds')
    .argument('<key-id>', 'the id that `parley keys list` shows')
    .addOption(config())
    .action((keyId: string, options: { config?: string }) => revokeKey(keyId, options))
}

function addAccounts(accounts: Command, config: () => Option): void {
  accounts
    .command('secret')
    .description("print the secret that signs an account's callbacks")
    .argument('<name>', 'the account')
    .option('--rotate', 'make a new secret; the old one signs beside it for 24 hours')
    .addOption(config())
    .action((name: string, options: { rotate?: true; config?: string }) => rotateOrPrintSecret(name, options))
  accounts
    .command('tier')
    .description('move an account to another tier')
    .argument('<name>', 'the account')
    .argument('<tier>', TIER_NAMES.join(', '), tierName)
    .addOption(config())
    .action((name: string, tier: TierName, options: { config?: string }) => setTier(name, tier, options))
}

function addCallbacks(callbacks: Command, config: () => Option): void {
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
    .option('--limit <count>', 'how many at most', countOf, 50)
    .option('--json', 'as a JSON array')
    .addOption(config())
    .action((options: ListCallbacksOptions) => listCallbacks(options))
  callbacks
    .command('show')
    .description('one callback with each of its attempts')
    .argument('<job-id>', 'whose callback')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .action((jobId: string, options: { json?: true; config?: string }) => showCallback(jobId, options))
  callbacks
    .command('replay')
    .description('have a callback sent again now, with all its attempts before it')
    .argument('[job-id]', 'whose callback, whatever its state')
    .option('--all-failed', 'all that failed for good instead')
    .option('--account <name>', 'of these, only those of this account')
    .addOption(config())
    .action((jobId: string | undefined, options: ReplayOptions) => replayCallbacks(jobId, options))
}

function countOf(text: string): number {
  const count = Number(text)
  if (!(Number.isInteger(count) && count > 0 && count <= MOST_LISTED)) {
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${MOST_LISTED}.`)
  }
  return count
}

function daysOf(text: string): number {
  const days = Number(text)
  if (!(days > 0 && days <= MOST_DAYS)) {
    throw new InvalidArgumentError(`It must be a positive number, ${MOST_DAYS} at most.`)
  }
  return days
}

function tierName(text: string): TierName {
  const tier = TIER_NAMES.find((name) => name === text)
  if (!tier) throw new InvalidArgumentError(`It must be one of ${TIER_NAMES.join(', ')}.`)
  return tier
}
