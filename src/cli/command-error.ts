/** What a command did not do, said to the person who asked for it, without a stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
}
