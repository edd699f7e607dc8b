/** Formats a log line where the logging library is not loaded. */

/** The library's numbers for its levels. */
const LEVELS = { warn: 40, error: 50 } as const

export function logLine(level: keyof typeof LEVELS, fields: object, message: string): string {
  return `${JSON.stringify({ level: LEVELS[level], time: new Date().toISOString(), ...fields, msg: message })}\n`
}
