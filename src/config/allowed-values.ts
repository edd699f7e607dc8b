/** Values of settings that other folders also name. They are apart from the settings, which take long to load. */

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export const MAX_THREADS = 64
