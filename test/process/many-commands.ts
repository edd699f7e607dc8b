/**
 * Runs commands of the program in one process, one after the other, where a test is about what they print and not about the
 * process: loading the program takes longer than most commands.
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

/** Ends with `t`. A command must not wait for its standard input, nor start a server. */
export async function startCommands(t: Lifetime, place: Installation): Promise<RunCommand> {
  const run = startCommandsAnywhere(t)
  return (args, options) => run(place, args, options)
}

/** The same for several installations: each command runs in the folder of one of them, and with its environment. */
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
