/**
 * Loaded into both sides of a comparison of memory (`--expose-gc --import`): on SIGUSR2 it collects garbage and prints
 * the memory that is left, so that no figure includes garbage.
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
