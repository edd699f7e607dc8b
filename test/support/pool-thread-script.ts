/** Runs as a thread of the CPU pool that runs the commands in the text of its task. Its output is the number of the thread. */
import { parentPort, threadId } from 'node:worker_threads'
import type { TaskRequest } from '../../src/cpu-pool/thread.ts'

parentPort?.on('message', ({ input }: TaskRequest<'judge answer'>) => {
  while (input.text === 'loop') {}
  if (input.text === 'fill') JSON.parse(`[${'{"a":[[]]},'.repeat(400_000)}{}]`)
  parentPort?.postMessage({ ok: true, output: threadId })
  if (input.text === 'die') process.exit()
})
