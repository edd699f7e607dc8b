/**
 * Runs commands of the program in one process, one after the other, for tests of what commands print. Loading the program takes
 * longer than most commands.
 *
 * ```ts
 * const run = await startCommands(t, place)
 * const { code, stderr } = await run(['keys', 'list', '--config', 'none.json'])
 * ```
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Lifetime } from '../parley.ts'
import type { CommandLine, Printed } from './many-commands-process.ts'
import type { Ended, Installation, ProgramOptions } from './server-process.ts'

const PROCESS = fileURLToPath(new URL('many-commands-process.ts', import.meta.url))

export type RunCommand = (args: readonly string[], options?: Pick<ProgramOptions, 'env'>) => Promise<Ended>

/** Starts the process, which ends with `t`. A command must not read standard input or start a server. */
export async function startCommands(t: Lifetime, place: Installation): Promise<RunCommand> {
  const run = startCommandsAnywhere(t)
  return (args, options) => run(place, args, options)
}

/** The same for several installations. Each command runs in the folder and with the environment of one of them. */
export function startCommandsAnywhere(
  t: Lifetime,
): (place: Installation, ...command: Parameters<RunCommand>) => Promise<Ended> {
  const child = fork(PROCESS)
  const exited = once(child, 'exit')
  t.after(async () => {
    if (child.connected) child.disconnect()
    await exited
  })
  const ended = exited.then(([code]) => {
    throw new Error(`the process of the commands ended with ${code}`)
  })
  ended.catch(() => {})
  let last: Promise<unknown> = Promise.resolve()
  return async (place, args, { env = {} } = {}) => {
    const before = last
    const { promise, resolve } = Promise.withResolvers<void>()
    last = promise
    await before
    try {
      const answer = once(child, 'message')
      child.send({ args, cwd: place.folder, env: place.environment(env) } satisfies CommandLine)
      const [printed] = (await Promise.race([answer, ended])) as [Printed]
      return { ...printed, signal: null }
    } finally {
      resolve()
    }
  }
}
