/** Deadlines for work that goes through several steps, each of which listens to one signal. */
import type { Clock } from '../clock.ts'

export interface Deadline {
  /** Aborts when the time is up, when `outer` aborts or by `stop`; its reason is an Error that says which. */
  readonly signal: AbortSignal
  stop(reason: Error): void
  /** Forgets timer and listener. To be called in every case, once the work has ended. */
  end(): void
}

export function startDeadline(
  clock: Clock,
  ms: number,
  message: string,
  outer: AbortSignal | undefined,
): Deadline {
  const controller = new AbortController()
  const stop = (reason: Error) => controller.abort(reason)
  const stopAsOuter = () => stop(asError(outer?.reason))
  const cancel = clock.after(ms, () => stop(new Error(message)))
  if (outer?.aborted) stopAsOuter()
  else outer?.addEventListener('abort', stopAsOuter, { once: true })
  const end = () => {
    cancel()
    outer?.removeEventListener('abort', stopAsOuter)
  }
  return { signal: controller.signal, stop, end }
}

/** What `work` comes to, or a rejection with the signal's reason as soon as that aborts, whatever `work` does then. */
export async function until<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const stopped = Promise.withResolvers<never>()
  const stop = () => stopped.reject(signal.reason)
  if (signal.aborted) stop()
  else signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, stopped.promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** Node's and undici's errors say by a code what happened; '' for those that do not. */
export function codeOf(thrown: unknown): string {
  const code = typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : ''
  return typeof code === 'string' ? code : ''
}
