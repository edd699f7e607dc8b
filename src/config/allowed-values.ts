/** Values of settings that other folders also name, and rules for them. They are apart from the settings, which take long to load. */

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export const MAX_THREADS = 64

/** The roles of a node: it serves the API, runs jobs and delivers callbacks, or does both. */
export const ROLES = ['all', 'api', 'worker'] as const
export type Role = (typeof ROLES)[number]

export const DEFAULT_DATABASE = 'sqlite:./data/parley.db'

export function databaseProblems(url: string): string[] {
  if (url === 'sqlite::memory:') return ['database: must be in a file, because jobs outlive the server']
  if (/^sqlite:.+/.test(url)) return []
  if (/^postgres(ql)?:\/\//.test(url) && URL.canParse(url)) return []
  // The URL may contain a password, so it is not repeated.
  return ['database: must be sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE']
}
