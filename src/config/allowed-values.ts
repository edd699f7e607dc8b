/** Values of settings that other folders also name. They are apart from the settings, which take long to load. */

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export const MAX_THREADS = 64

/** The roles of a node: it serves the API, runs jobs and delivers callbacks, or does both. */
export const ROLES = ['all', 'api', 'worker'] as const
export type Role = (typeof ROLES)[number]
