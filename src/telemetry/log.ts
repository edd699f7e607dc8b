/**
 * Creates the server's log: JSON lines on standard error, because standard output is for people. The log must never contain a
 * prompt, an answer, a key or a header.
 */
import { pino } from 'pino'
import type { LogLevel } from '../config/allowed-values.ts'
import { StoreUnavailable } from '../store/store.ts'
import { LogWriter, logLine } from './log-writer.ts'

export type Fields = Readonly<Record<string, unknown>>

export interface Log {
  error(fields: Fields, message: string): void
  warn(fields: Fields, message: string): void
  info(fields: Fields, message: string): void
  debug(fields: Fields, message: string): void
  /** Writes the lines that are still in memory. Call this before the process exits. */
  flush(): void
}

export function createLog(level: LogLevel): Log {
  const writer = new LogWriter(2, lostLine)
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, writer)
}

function lostLine(lines: number): string {
  return logLine('warn', { lines }, 'the log could not be written for a while; lines are missing')
}

/** Includes the stack of an error unless the database was unavailable, because the error may be a bug of Parley. */
export function errorFields(error: unknown): Fields {
  if (!(error instanceof Error)) return { error: String(error) }
  const known = error instanceof StoreUnavailable
  return { error: error.message, error_name: error.name, ...(!known && { stack: error.stack }) }
}
