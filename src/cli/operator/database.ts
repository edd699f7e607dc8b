/** The options of the commands that work on the database: migrate, copy, scrub, backup, restore. */
import type { Command } from 'commander'
import type { BackupOptions } from '../backup.ts'
import type { CopyOptions } from '../copy.ts'
import { FROM_PASSWORD, TO_PASSWORD } from '../copy-passwords.ts'
import { config, type DefaultOptions, examples, SCRUB_HELP } from './shared-options.ts'

export function addDatabase(program: Command): void {
  program
    .command('migrate')
    .description('bring the database schema up to date')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', examples('parley migrate', 'DATABASE_URL=postgres://db/parley parley migrate'))
    .action(async (options: DefaultOptions) => (await import('../migrate.ts')).migrate(options))
  program
    .command('copy')
    .description('copy accounts, keys and jobs into another, empty database')
    .requiredOption('--from <database>', 'sqlite:PATH or postgres://…; no server may use it')
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
  program
    .command('scrub')
    .description('remove data that was deleted with --no-scrub from the disk')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', SCRUB_HELP)
    .addHelpText('after', examples('parley jobs delete 019a5d3e-… --no-scrub && parley scrub'))
    .action(async (options: DefaultOptions) => (await import('../scrub.ts')).scrub(options))
}

export function addBackup(program: Command): void {
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
      (await import('../backup.ts')).backUp(file, options),
    )
  program
    .command('restore')
    .description('replace the database with a backup; no server may be running')
    .argument('<file>', 'a file that `parley backup` wrote')
    .option('--force', 'also replace a database that is not empty; it is kept next to the new one')
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
      (await import('../restore.ts')).restore(file, options),
    )
}
