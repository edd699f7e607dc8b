/** What is said to the person at the terminal, as against the log. */

export function printLine(text: string): void {
  process.stdout.write(`${text}\n`)
}

export function printError(text: string): void {
  process.stderr.write(`${text}\n`)
}
