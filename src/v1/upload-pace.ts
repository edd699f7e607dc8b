/** Ends uploads that are too slow, because each of them takes memory. */
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../clock.ts'
import { V1Error } from './errors.ts'

/** A client must send this much on average in each window. Time in which the server does not read does not count. */
const BYTES_PER_MS = 64 * 1.024
const WINDOW_MS = 10_000

/** Calls `onSlow` once, after the first window in which the client was too slow. Returns a function that ends the watch. */
export function watchPace(
  request: IncomingMessage,
  clock: Pick<Clock, 'steadyMs' | 'after'>,
  onSlow: (error: V1Error) => void,
): () => void {
  let bytes = 0
  let waitedMs = 0
  let sinceMs = clock.steadyMs()
  let isPaused = false
  const count = () => {
    const nowMs = clock.steadyMs()
    if (!isPaused) waitedMs += nowMs - sinceMs
    sinceMs = nowMs
    isPaused = request.isPaused()
  }
  const onData = (piece: Buffer) => {
    count()
    bytes += piece.length
  }
  const onChange = () => count()
  const check = (): void => {
    count()
    if (bytes < waitedMs * BYTES_PER_MS) {
      onSlow(tooSlow())
      return
    }
    bytes = 0
    waitedMs = 0
    cancel = clock.after(WINDOW_MS, check)
  }
  let cancel = clock.after(WINDOW_MS, check)
  request.on('data', onData).on('pause', onChange).on('resume', onChange)
  return () => {
    cancel()
    request.off('data', onData).off('pause', onChange).off('resume', onChange)
  }
}

/** Clients must not retry, because another attempt would be as slow. */
const tooSlow = () =>
  new V1Error(408, 'The upload is too slow: send at least 64 KiB per second.', { shouldRetry: false })
