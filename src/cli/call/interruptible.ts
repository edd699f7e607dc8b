/** Work that SIGINT or SIGTERM ends: its signal aborts, and the command ends with the code that shells expect. */
import { CommandError } from '../command-error.ts'
import { onShutdownSignal } from '../shutdown-signals.ts'
import { clientError } from './client-errors.ts'
import { EXIT } from './exit-code.ts'

/** Errors of the client come as `CommandError`. `says` is what people are told when it was interrupted. */
export async function interruptible<T>(
  work: (signal: AbortSignal) => Promise<T>,
  says: () => string,
): Promise<T> {
  const controller = new AbortController()
  let code: number = EXIT.interrupted
  onShutdownSignal((why) => {
    if (why === 'SIGTERM' && !controller.signal.aborted) code = EXIT.terminated
    controller.abort()
  })
  try {
    return await work(controller.signal)
  } catch (error) {
    if (controller.signal.aborted) throw new CommandError(says(), code)
    throw clientError(error)
  }
}
