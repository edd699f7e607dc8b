/**
 * Blocks the event loop of a node's main thread on SIGUSR2, without using the CPU, while the file in BLOCK_WHILE exists.
 * NODE_OPTIONS loads this module into the node.
 */
import { existsSync, writeSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

const LOOK_EVERY_MS = 20

let blocks = 0

function block(file: string): void {
  const nobody = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  blocks += 1
  writeSync(2, `event loop blocked (${blocks})\n`)
  while (existsSync(file)) Atomics.wait(nobody, 0, 0, LOOK_EVERY_MS)
  writeSync(2, `event loop free (${blocks})\n`)
}

if (isMainThread) process.on('SIGUSR2', () => block(process.env.BLOCK_WHILE ?? ''))
