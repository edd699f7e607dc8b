/** Runs in the threads that `reused-threads.ts` starts. Each message names a script, which is evaluated as in a new thread. */
import { syncBuiltinESMExports } from 'node:module'
import workerThreads, { type MessagePort, parentPort } from 'node:worker_threads'

interface Run {
  readonly script: string
  readonly port: MessagePort
  readonly workerData: unknown
}

/** Kept, because the imported name becomes the port of a script. */
const parent = parentPort

let runs = 0
parent?.on('message', ({ script, port, workerData }: Run) => {
  port.once('close', () => parent.postMessage('ended'))
  Object.assign(workerThreads, { parentPort: port, workerData })
  syncBuiltinESMExports()
  // Only this module is evaluated again, and not those that it imports.
  void import(`${script}?run=${runs++}`)
})
