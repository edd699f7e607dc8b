/** Writes a large file for a command: shows progress, and leaves no partial file when interrupted. */
import type { WriteOptions } from '../store/backup.ts'
import { Progress } from './progress.ts'
import { onShutdownSignal } from './shutdown-signals.ts'

type ProgressOptions = Pick<WriteOptions, 'signal' | 'onProgress'>

export async function writeWithProgress<T>(
  write: (options: ProgressOptions) => Promise<T>,
): Promise<{ readonly result: T; readonly seconds: number }> {
  const startedMs = performance.now()
  const controller = new AbortController()
  const progress = new Progress(process.stderr)
  onShutdownSignal((reason) => {
    progress.end()
    controller.abort()
    killSelf(reason === 'SIGINT' ? 'SIGINT' : 'SIGTERM')
  })
  try {
    const result = await write({
      signal: controller.signal,
      onProgress: (bytes) => progress.show(Math.round(bytes / 1e6), 'MB'),
    })
    return { result, seconds: (performance.now() - startedMs) / 1000 }
  } finally {
    progress.end()
  }
}

/** Ends the process at once. `process.exit` would wait for the storage thread, which does not respond until SQLite has written everything. */
function killSelf(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}
