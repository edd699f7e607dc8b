/** Runs work that SIGINT or SIGTERM aborts. The command then exits with the code that shells expect. */
import { CommandError } from '../command-error.ts'
import { onShutdownSignal } from '../shutdown-signals.ts'
import { clientError } from './client-errors.ts'
import { EXIT } from './exit-code.ts'

/** Converts errors of the client to `CommandError`. `interruptedMessage` is for the user. */
export async function interruptible<T>(
  work: (signal: AbortSignal) => Promise<T>,
  interruptedMessage: () => string,
): Promise<T> {
  const controller = new AbortController()
  let code: number = EXIT.interrupted
  onShutdownSignal((reason) => {
    if (reason === 'SIGTERM' && !controller.signal.aborted) code = EXIT.terminated
    controller.abort()
  })
  try {
    return await work(controller.signal)
  } catch (error) {
    if (controller.signal.aborted) throw new CommandError(interruptedMessage(), code)
    throw clientError(error)
  }
}
