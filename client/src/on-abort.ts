/**
 * Calls functions when a signal aborts. All functions for a signal share one listener, because a caller may use one signal for
 * a thousand calls, and Node 20 warns of a leak if a signal has more than ten listeners.
 */
const callbacksOf = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `callback` once when the signal aborts. Returns a function that unsubscribes. The signal must not have aborted yet. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => {}
  const callbacks = callbacksOf.get(signal) ?? new Set()
  // The same callback can be added twice, because each call adds a function of its own.
  const own = () => callback()
  callbacks.add(own)
  if (callbacks.size === 1) listen(signal, callbacks)
  return () => {
    callbacks.delete(own)
    if (callbacks.size === 0) unlistenOf.get(callbacks)?.()
  }
}

/** Maps each set of callbacks to the function that removes its shared listener. */
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
