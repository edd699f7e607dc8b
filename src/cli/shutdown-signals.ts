/** Handles SIGTERM, SIGINT and the exit of npm, for commands that run until they are stopped. */

const PARENT_CHECK_MS = 500

/**
 * Calls `stop` for every signal. The handlers stay after the first signal, because a second signal would otherwise kill the
 * process during its shutdown.
 */
export function onShutdownSignal(stop: (reason: string) => void): void {
  const onSignal = (reason: string) => {
    clearInterval(parentCheck)
    stop(reason)
  }
  process.on('SIGTERM', () => onSignal('SIGTERM'))
  process.on('SIGINT', () => onSignal('SIGINT'))
  const parentCheck = watchParent(() => onSignal('npm, which started this process, has exited'))
}

/** npm does not forward SIGTERM. Without this check, the server would continue after npm has exited, and keep the port. */
function watchParent(onExit: () => void): NodeJS.Timeout | undefined {
  if (!process.env.npm_lifecycle_event) return undefined
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid !== parent) onExit()
  }, PARENT_CHECK_MS)
  timer.unref()
  return timer
}
