/**
 * The log: JSON lines on standard error, so that standard output is free for what is said to people. Never given a
 * prompt, an answer, a key or a header.
 */
import { pino } from 'pino'
import type { LogLevel } from '../config/settings.ts'
import { StoreUnavailable } from '../store/store.ts'

export type Fields = Readonly<Record<string, unknown>>

export interface Log {
  error(fields: Fields, message: string): void
  warn(fields: Fields, message: string): void
  info(fields: Fields, message: string): void
  debug(fields: Fields, message: string): void
  /** Writes out what is still in memory. */
  flush(): void
}

/** Lines are gathered up to this many bytes, since a system call a line would cost more than the line. */
const BUFFER_BYTES = 65_536
/** The library's bound on one write; it must not be below the buffer. */
const WRITE_BYTES = 131_072
const FLUSH_MS = 200

export function createLog(level: LogLevel): Log {
  const destination = pino.destination({
    dest: 2,
    sync: false,
    minLength: BUFFER_BYTES,
    maxWrite: WRITE_BYTES,
    periodicFlush: FLUSH_MS,
  })
  const logger = pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination)
  return {
    error: (fields, message) => logger.error(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    info: (fields, message) => logger.info(fields, message),
    debug: (fields, message) => logger.debug(fields, message),
    flush: () => {
      try {
        destination.flushSync()
      } catch {
        // Nothing was ever written, or standard error is gone; either way nothing is left to save.
      }
    },
  }
}

/** An error's name and message; its stack goes along only where it may be a bug of ours. */
export function errorFields(error: unknown): Fields {
  if (!(error instanceof Error)) return { error: String(error) }
  const known = error instanceof StoreUnavailable
  return { error: error.message, error_name: error.name, ...(!known && { stack: error.stack }) }
}
