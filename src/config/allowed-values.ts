/**
 * Declares values of settings that other folders use as well, and rules for them. They have their own file, because the table
 * of all settings takes long to load.
 */

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export const MAX_THREADS = 64

/**
 * A node with the role `api` serves the API, one with `worker` runs jobs and delivers callbacks, and one with `all` does both.
 */
export const ROLES = ['all', 'api', 'worker'] as const
export type Role = (typeof ROLES)[number]

export const DEFAULT_DATABASE = 'sqlite:./data/parley.db'

export function databaseProblems(url: string): string[] {
  if (url === 'sqlite::memory:') return ['database: must be in a file, because jobs outlive the server']
  if (/^sqlite:.+/.test(url)) return []
  if (/^postgres(ql)?:\/\//.test(url) && URL.canParse(url)) return []
  // The message does not repeat the URL, which may contain a password.
  return ['database: must be sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE']
}
