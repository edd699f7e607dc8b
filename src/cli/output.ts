/** Prints lines for the user, on standard output and standard error. The server's log is separate. */

export function printLine(text: string): void {
  if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', endAtClosedPipe)
  process.stdout.write(`${text}\n`)
}

export function printError(text: string): void {
  process.stderr.write(`${text}\n`)
}

/** Ends the process when nobody reads its output any more, as after `parley … | head`. */
function endAtClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
  process.exit()
}
