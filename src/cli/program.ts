/** The command line: runs what it is given, and tells what went wrong in a few words. */
import { Command, CommanderError } from 'commander'
import { VERSION } from '../version.ts'
import { CommandError } from './command-error.ts'
import { addOperatorCommands } from './operator-commands.ts'
import { say, sayError } from './say.ts'

/** Runs the arguments; resolves with the exit code. Errors of use and of configuration are told in a few words. */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  let exitCode = 0
  const program = build((code) => {
    exitCode = code
  })
  try {
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode
    const told = await forPeople(error)
    sayError(told.message)
    return told instanceof CommandError ? told.exitCode : 1
  }
  return exitCode
}

/** Throws what is no mistake of theirs. The classes of the others are loaded only where they are needed. */
async function forPeople(error: unknown): Promise<Error> {
  if (error instanceof CommandError) return error
  const { ConfigurationError } = await import('../config/load.ts')
  const { DatabaseProblem } = await import('../store/database-problem.ts')
  if (error instanceof ConfigurationError || error instanceof DatabaseProblem) return error
  throw error
}

function build(exit: (code: number) => void): Command {
  const program = new Command('parley')
    .description(
      'Runs AI message jobs: the answer in the same response, by polling, or by a signed callback.',
    )
    .version(VERSION)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => say(text.trimEnd()),
      writeErr: (text) => sayError(text.trimEnd()),
    })
  addOperatorCommands(program, exit)
  return program
}
