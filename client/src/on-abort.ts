/**
 * Hears of a signal's abort. However many wait for it, the signal has one listener: Node 20 warns of a leak where one signal
 * has more than ten, and a caller may well have one for a thousand calls.
 */
const waiting = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `act` once when the signal aborts; the returned function undoes that. The signal has not aborted yet. */
export function onAbort(signal: AbortSignal | undefined, act: () => void): () => void {
  if (signal === undefined) return () => {}
  const acts = waiting.get(signal) ?? new Set()
  // A function of its own, so that two who give the same are two.
  const own = () => act()
  acts.add(own)
  if (acts.size === 1) listen(signal, acts)
  return () => {
    acts.delete(own)
    if (acts.size === 0) listeners.get(acts)?.()
  }
}

/** How to stop listening for the sake of these. */
const listeners = new WeakMap<Set<() => void>, () => void>()

function listen(signal: AbortSignal, acts: Set<() => void>): void {
  const abort = () => {
    for (const act of acts) act()
  }
  signal.addEventListener('abort', abort, { once: true })
  waiting.set(signal, acts)
  listeners.set(acts, () => {
    signal.removeEventListener('abort', abort)
    waiting.delete(signal)
  })
}
