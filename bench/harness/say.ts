/** Words for people, on standard output. */
export function say(text = ''): void {
  process.stdout.write(`${text}\n`)
}
