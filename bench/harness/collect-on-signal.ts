/**
 * Loaded into both sides of a comparison of memory (`--expose-gc --import`): on SIGUSR2 it collects garbage and prints
 * what is left, so that neither side is charged for what it no longer needs.
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
