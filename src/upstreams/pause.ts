/** A delay on the injected clock, which a signal can end early. */
import type { Clock } from '../clock.ts'
import type { StopSignal } from '../job/stop.ts'

/**
 * Resolves to true after `ms`, and to false when the signal stops it.
 * @param wakers contains a function during the pause that ends the pause early, with true
 */
export function pause(
  clock: Clock,
  ms: number,
  signal: StopSignal,
  wakers?: Set<() => void>,
): Promise<boolean> {
  if (signal.reason !== null) return Promise.resolve(false)
  return new Promise((resolve) => {
    const end = (isOver: boolean) => {
      cancel()
      signal.unlisten(listener)
      wakers?.delete(wake)
      resolve(isOver)
    }
    const wake = () => end(true)
    const listener = { onStop: () => end(false) }
    const cancel = clock.after(ms, wake)
    signal.listen(listener)
    wakers?.add(wake)
  })
}
