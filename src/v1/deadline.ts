/** Decides when the server must answer a held request even if the job has not finished: before the client times out. */
import type { IncomingHttpHeaders } from 'node:http'

/** Node's fetch fails if no headers have arrived within 300 s. */
const LONGEST_S = 280
/** The answer may take this long to arrive. */
const EARLIER_S = 5

/** Returns the time in milliseconds. OpenAI's clients send their timeout, in seconds; 600 by default. */
export function holdMs(headers: IncomingHttpHeaders): number {
  const timeoutS = Number(headers['x-stainless-timeout'])
  if (!(timeoutS > 0)) return LONGEST_S * 1000
  return Math.min(LONGEST_S, Math.max(timeoutS - EARLIER_S, timeoutS / 2)) * 1000
}

/** Whether the client repeats an earlier request. */
export function isRetry(headers: IncomingHttpHeaders): boolean {
  return Number(headers['x-stainless-retry-count']) >= 1
}
