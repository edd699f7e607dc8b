/**
 * Loaded into a server with `--import`: appends to the file in LOOP_PROBE_FILE how long the event loop of the main thread
 * was held, in milliseconds of CPU time, a line for each time it was more than a few. CPU time, because a busy machine
 * stretches every other.
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
