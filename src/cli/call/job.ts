/** `parley job`: what became of a job, now or at its end. */

import { TimeoutError } from '../../../client/src/index.ts'
import { CommandError } from '../command-error.ts'
import { printJob } from './answer.ts'
import { connect } from './connection.ts'
import { EXIT } from './exit-code.ts'
import { interruptible } from './interruptible.ts'
import type { ServerOptions } from './server-options.ts'

export interface JobOptions extends ServerOptions {
  readonly wait?: true
  readonly timeout?: number
  readonly json?: true
}

/** Resolves with the exit code. */
export async function showJob(
  jobId: string,
  { wait, timeout, json, ...server }: JobOptions,
): Promise<number> {
  if (timeout !== undefined && !wait) throw new CommandError('--timeout belongs to --wait.')
  const parley = connect(server)
  const found = await interruptible(
    async (signal) => {
      if (!wait) return parley.messages.retrieve(jobId, { signal })
      try {
        return await parley.messages.wait(jobId, { signal, timeout })
      } catch (error) {
        // Of the wait itself, as against that of a request.
        if (!(error instanceof TimeoutError && error.jobId === jobId)) throw error
        throw new CommandError(`Job ${jobId} has not ended within ${timeout} s; it goes on.`, EXIT.open)
      }
    },
    () => `Interrupted. The job goes on: parley job ${jobId} --wait`,
  )
  return printJob(found, json === true)
}
