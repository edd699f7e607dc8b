/** Prints lines for the user on standard output. */
export function printLine(text = ''): void {
  process.stdout.write(`${text}\n`)
}
