/** Makes what a page consists of on a thread of its own, so that no request waits for it. */
import { Worker } from 'node:worker_threads'

/**
 * Returns a function that starts the thread once. After a failure, the next call starts another.
 * @param module the thread's module, which posts one message
 * @param what it makes, for the error
 */
export function madeInThread<T>(module: URL, what: string, workerData?: unknown): () => Promise<T> {
  let made: Promise<T> | null = null
  return () => {
    made ??= make<T>(module, what, workerData).catch((error: unknown) => {
      made = null
      throw error
    })
    return made
  }
}

function make<T>(module: URL, what: string, workerData: unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    // Node warns that stripping types is experimental. Operators cannot act on that, so it stays out of the log.
    const worker = new Worker(module, { workerData, execArgv: ['--disable-warning=ExperimentalWarning'] })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) =>
      reject(new Error(`the thread that builds ${what} exited with code ${code}`)),
    )
  })
}

/** Threads receive buffers as plain arrays of bytes. Returns a view of the same bytes, not a copy. */
export function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}
