/** Options and help texts that several operator commands share. */
import { InvalidArgumentError, Option } from 'commander'
import { isMonth } from '../../job/month.ts'

/** The maximum number of rows that one command lists. */
export const MAX_ROWS = 10_000

export interface DefaultOptions {
  readonly config?: string
  readonly json?: true
}

export function config(): Option {
  return new Option('--config <file>', 'configuration file (default: ./parley.config.json if it exists)')
}

export function noScrub(): Option {
  return new Option(
    '--no-scrub',
    'do not scrub: deleted data stays in free pages on the disk until they are reused (run `parley scrub` later)',
  )
}

export const SCRUB_HELP = `
Scrubbing removes deleted data from the disk as far as the database can. On SQLite it rewrites the whole file, which needs
as much free disk space as the file takes, both next to the file and for temporary files (in SQLITE_TMPDIR, TMPDIR or
/var/tmp). Other writes wait until it has finished; after 5 s, a running server responds to new jobs with 503. On Postgres
it vacuums the tables. Backups and log files are not changed. The audit log still shows what was deleted and by whom.`

export function examples(...lines: readonly string[]): string {
  const title = lines.length === 1 ? 'Example' : 'Examples'
  return `\n${title}:\n${lines.map((line) => `  ${line}`).join('\n')}`
}

export function monthOption(text: string): string {
  if (!isMonth(text)) throw new InvalidArgumentError('It must be a month in the form YYYY-MM.')
  return text
}

/** Reads a cap: a number, `none` or `tier`. */
export function capOption(text: string): number | 'none' | 'tier' {
  if (text === 'none' || text === 'tier') return text
  const cap = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(cap)) {
    throw new InvalidArgumentError('It must be a whole number of at least 0, none, or tier.')
  }
  return cap
}
