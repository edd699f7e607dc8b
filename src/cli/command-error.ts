/** A command that failed for a reason that the user can act on. The message is printed without a stack trace. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  /** The exit code of the process; docs/command-line.md lists them. */
  readonly exitCode: number

  constructor(message: string, exitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}
