/** Prints lines for the user, on standard output and standard error. The server's log is separate. */

export function printLine(text: string): void {
  if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', endAtClosedPipe)
  process.stdout.write(`${text}\n`)
}

export function printError(text: string): void {
  process.stderr.write(`${text}\n`)
}

/** After `parley … | head`, nobody reads the rest. */
function endAtClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
  process.exit()
}
