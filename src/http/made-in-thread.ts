/**
 * Builds the files of a page (the dashboard, /docs) on a thread of its own, because building them on the event loop would delay
 * requests.
 */
import { Worker } from 'node:worker_threads'

/**
 * Returns a function that starts the thread at its first call, and always resolves with the same result. After a failure, the
 * next call starts another thread.
 * @param module the thread's module, which posts one message: the result
 * @param what the thread builds, for the error message
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
    // Node warns that type stripping is experimental. Operators cannot change that, so the warning would only clutter the log.
    const worker = new Worker(module, { workerData, execArgv: ['--disable-warning=ExperimentalWarning'] })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) =>
      reject(new Error(`the thread that builds ${what} exited with code ${code}`)),
    )
  })
}

/** Returns a view of the bytes, without copying them. Buffers that a thread sends arrive as `Uint8Array`. */
export function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}
