/** Prints lines for the user, on standard output and standard error. The server's log is separate. */

export function printLine(text: string): void {
  process.stdout.write(`${text}\n`)
}

export function printError(text: string): void {
  process.stderr.write(`${text}\n`)
}
