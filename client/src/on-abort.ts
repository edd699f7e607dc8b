/**
 * Calls functions when a signal aborts. All of them share one listener per signal, because Node 20 warns of a leak if a signal
 * has more than ten listeners, and a caller may use one signal for a thousand calls.
 */
const callbacksOf = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `callback` once when the signal aborts; the returned function unsubscribes. The signal must not have aborted yet. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => {}
  const callbacks = callbacksOf.get(signal) ?? new Set()
  // The wrapper lets the same callback be added twice.
  const own = () => callback()
  callbacks.add(own)
  if (callbacks.size === 1) listen(signal, callbacks)
  return () => {
    callbacks.delete(own)
    if (callbacks.size === 0) unlistenOf.get(callbacks)?.()
  }
}

/** Removes the shared listener of a set of callbacks. */
const unlistenOf = new WeakMap<Set<() => void>, () => void>()

function listen(signal: AbortSignal, callbacks: Set<() => void>): void {
  const abort = () => {
    for (const callback of callbacks) callback()
  }
  signal.addEventListener('abort', abort, { once: true })
  callbacksOf.set(signal, callbacks)
  unlistenOf.set(callbacks, () => {
    signal.removeEventListener('abort', abort)
    callbacksOf.delete(signal)
  })
}
