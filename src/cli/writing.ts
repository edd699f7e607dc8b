/** Writes a large file for a command: with its progress, and so that an interrupt leaves nothing behind. */
import type { WriteOptions } from '../store/backup.ts'
import { Progress } from './progress.ts'
import { onShutdownSignal } from './shutdown-signals.ts'

type Given = Pick<WriteOptions, 'signal' | 'onProgress'>

export async function writing<T>(
  work: (options: Given) => Promise<T>,
): Promise<{ readonly result: T; readonly seconds: number }> {
  const startedMs = performance.now()
  const controller = new AbortController()
  const progress = new Progress(process.stderr)
  onShutdownSignal((why) => {
    progress.end()
    controller.abort()
    endBy(why === 'SIGINT' ? 'SIGINT' : 'SIGTERM')
  })
  try {
    const result = await work({
      signal: controller.signal,
      onProgress: (bytes) => progress.show(Math.round(bytes / 1e6), 'MB'),
    })
    return { result, seconds: (performance.now() - startedMs) / 1000 }
  } finally {
    progress.end()
  }
}

/** At once: to exit would be to wait for the thread, which hears nothing until SQLite has written everything. */
function endBy(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}
