/** What `parley serve` and the commands that see to its database take. */
import { type Command, Option } from 'commander'
import { ROLES } from '../../app/role.ts'
import type { BackupOptions } from '../backup.ts'
import type { CopyOptions } from '../copy.ts'
import type { ServeOptions } from '../serve.ts'
import { config, examples, type Plain, SCRUB_HELP } from './parts.ts'

export function addServe(program: Command, exit: (code: number) => void): void {
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
    .action(async (options: ServeOptions) => exit(await (await import('../serve.ts')).serve(options)))
  program
    .command('check')
    .description('validate the configuration and the connections')
    .option('--json', 'as a JSON array of findings')
    .addOption(config())
    .addHelpText('after', examples('parley check', 'parley check --config production.json && parley serve'))
    .action(async (options: Plain) => exit(await (await import('../check.ts')).check(options)))
}

export function addDatabase(program: Command): void {
  program
    .command('migrate')
    .description('bring the database schema up to date')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley migrate', 'DATABASE_URL=postgres://db/parley parley migrate'))
    .action(async (options: Plain) => (await import('../migrate.ts')).migrate(options))
  program
    .command('copy')
    .description('copy accounts, keys and jobs into another, empty database')
    .requiredOption('--from <database>', 'sqlite:PATH or postgres://…; no server may be using it')
    .requiredOption('--to <database>', 'sqlite:PATH or postgres://…; it must hold nothing')
    .option('--json', 'print what was copied as a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley copy --from sqlite:./data/parley.db --to postgres://db/parley'))
    .action(async (options: CopyOptions) => (await import('../copy.ts')).copy(options))
  program
    .command('scrub')
    .description('make what was deleted with --no-scrub leave the disk')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', SCRUB_HELP)
    .addHelpText('after', examples('parley jobs delete 019a5d3e-… --no-scrub && parley scrub'))
    .action(async (options: Plain) => (await import('../scrub.ts')).scrub(options))
}

export function addBackup(program: Command): void {
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
      (await import('../backup.ts')).backUp(file, options),
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
      (await import('../restore.ts')).restore(file, options),
    )
}
