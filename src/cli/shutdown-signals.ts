/** By what a command that runs until it is told to stop is told so: SIGTERM, SIGINT, or the end of the npm that started it. */

/** How often a command that npm started looks whether npm is still there. */
const PARENT_CHECK_MS = 500

/** `stop` is called each time: a signal that arrives again must not cut the stop short, so the handlers stay. */
export function onShutdownSignal(stop: (why: string) => void): void {
  const told = (why: string) => {
    clearInterval(parentCheck)
    stop(why)
  }
  process.on('SIGTERM', () => told('SIGTERM'))
  process.on('SIGINT', () => told('SIGINT'))
  const parentCheck = watchParent(() => told('npm, which started this server, has ended'))
}

/** npm does not pass SIGTERM on to what it runs; without this, an orphan would keep the port. */
function watchParent(onGone: () => void): NodeJS.Timeout | undefined {
  if (!process.env.npm_lifecycle_event) return undefined
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid !== parent) onGone()
  }, PARENT_CHECK_MS)
  timer.unref()
  return timer
}
