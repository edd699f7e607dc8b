/**
 * Loaded into both sides of a memory comparison (`--expose-gc --import`): on SIGUSR2 it collects garbage and prints the
 * memory in use, so that no figure includes garbage.
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
