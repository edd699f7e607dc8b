/**
 * Collects garbage on SIGUSR2, and prints the memory in use. Both sides of a memory comparison load this file (`--expose-gc
 * --import`), so that no figure includes garbage.
 */
import { isMainThread } from 'node:worker_threads'

if (isMainThread) {
  process.on('SIGUSR2', () => {
    globalThis.gc?.()
    globalThis.gc?.()
    const { heapUsed, external, arrayBuffers } = process.memoryUsage()
    process.stdout.write(`memory ${JSON.stringify({ heapUsed, external, arrayBuffers })}\n`)
  })
}
