/** When the server must answer a held request, whether the job has finished or not: before the client's own clock runs out. */
import type { IncomingHttpHeaders } from 'node:http'

/** Node's fetch gives up when no headers have arrived for 300 s. */
const LONGEST_S = 280
/** How long the answer may take on its way. */
const EARLIER_S = 5

/** In milliseconds from now. OpenAI's clients send their timeout, in seconds; 600 by default. */
export function holdMs(headers: IncomingHttpHeaders): number {
  const timeoutS = Number(headers['x-stainless-timeout'])
  if (!(timeoutS > 0)) return LONGEST_S * 1000
  return Math.min(LONGEST_S, Math.max(timeoutS - EARLIER_S, timeoutS / 2)) * 1000
}

/** Whether the client sends this request again. */
export function isRetry(headers: IncomingHttpHeaders): boolean {
  return Number(headers['x-stainless-retry-count']) >= 1
}
