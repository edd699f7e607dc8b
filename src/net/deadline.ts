/** Creates deadlines that several steps of a POST share, and reads the errors of aborted steps. */
import type { Clock } from '../clock.ts'

export interface Deadline {
  /** The signal aborts at the deadline, when `outer` aborts, or by `abort`. Its reason is an Error that describes the cause. */
  readonly signal: AbortSignal
  abort(reason: Error): void
  /** Call this when the work has ended, even if it failed. Otherwise, listeners accumulate on `outer`. */
  clear(): void
}

export function startDeadline(
  clock: Clock,
  ms: number,
  message: string,
  outer: AbortSignal | undefined,
): Deadline {
  const controller = new AbortController()
  const abort = (reason: Error) => controller.abort(reason)
  const abortWithOuter = () => abort(asError(outer?.reason))
  const cancel = clock.after(ms, () => abort(new Error(message)))
  if (outer?.aborted) abortWithOuter()
  else outer?.addEventListener('abort', abortWithOuter, { once: true })
  const clear = () => {
    cancel()
    outer?.removeEventListener('abort', abortWithOuter)
  }
  return { signal: controller.signal, abort, clear }
}

/** Settles like `work`, but rejects with the signal's reason as soon as the signal aborts, even if `work` continues. */
export async function abortable<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = () => aborted.reject(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** Returns the `code` of an error of Node or undici; an empty text if there is none. */
export function codeOf(thrown: unknown): string {
  const code = typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : ''
  return typeof code === 'string' ? code : ''
}
