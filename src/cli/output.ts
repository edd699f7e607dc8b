/** What is said to the person at the terminal, as against the log. */

export function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

export function sayError(text: string): void {
  process.stderr.write(`${text}\n`)
}
