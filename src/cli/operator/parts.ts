/** What the commands of operators have in common: options, and how examples are shown. */
import { InvalidArgumentError, Option } from 'commander'
import { isMonth } from '../../job/month.ts'

/** Rows that one command lists. */
export const MOST_LISTED = 10_000

export interface Plain {
  readonly config?: string
  readonly json?: true
}

export function config(): Option {
  return new Option('--config <file>', 'configuration file (default: ./parley.config.json if there is one)')
}

export function noScrub(): Option {
  return new Option(
    '--no-scrub',
    'leave what is deleted in free pages of the disk until they are written again (`parley scrub` later)',
  )
}

export const SCRUB_HELP = `
The scrub makes what was deleted leave the disk as far as the database can. On SQLite it writes the whole file anew: it needs as much free disk as the
file has beside it, and as much again for temporary files (SQLITE_TMPDIR, else TMPDIR, else /var/tmp). Writes wait meanwhile;
a server beside it answers 503 to creates when that takes longer than 5 s. On Postgres it vacuums the tables. Backups and log files stay as they are, and so does what the audit log says: that it was deleted, and by whom.`

export function examples(...lines: readonly string[]): string {
  const title = lines.length === 1 ? 'Example' : 'Examples'
  return `\n${title}:\n${lines.map((line) => `  ${line}`).join('\n')}`
}

export function monthOption(text: string): string {
  if (!isMonth(text)) throw new InvalidArgumentError('It must be a month, as YYYY-MM.')
  return text
}

/** A cap as people write it. */
export function capOption(text: string): number | 'none' | 'tier' {
  if (text === 'none' || text === 'tier') return text
  const cap = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(cap)) {
    throw new InvalidArgumentError('It must be a whole number from 0, none or tier.')
  }
  return cap
}
