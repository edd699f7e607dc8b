/** Prints a line for the person who runs the benchmarks. */
export function printLine(text = ''): void {
  process.stdout.write(`${text}\n`)
}
