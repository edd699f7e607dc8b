/** What a command did not do, said to the person who asked for it, without a stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  /** What the process ends with: docs/command-line.md lists them. */
  readonly exitCode: number

  constructor(message: string, exitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}
