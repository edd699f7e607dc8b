/**
 * Appends a line to the file in LOOP_PROBE_FILE each time the event loop of the main thread was blocked for more than a few
 * milliseconds of CPU time, with that time. On a busy machine, any other measure would grow. A server loads this with
 * `--import`.
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
