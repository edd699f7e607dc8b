/**
 * Watches the event loop of the main thread. Each time it was blocked for more than a few milliseconds of CPU time, adds a line
 * with that time to the file LOOP_PROBE_FILE. On a busy machine, any other measure than CPU time would grow. A server loads
 * this module with `--import`.
 */
import { appendFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

const REPORTED_MS = 5
const file = process.env.LOOP_PROBE_FILE

if (isMainThread && file !== undefined) {
  let before = process.threadCpuUsage()
  setInterval(() => {
    const { user, system } = process.threadCpuUsage(before)
    const heldMs = (user + system) / 1000
    if (heldMs > REPORTED_MS) appendFileSync(file, `${heldMs}\n`)
    before = process.threadCpuUsage()
  }, 1).unref()
}
