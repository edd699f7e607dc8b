/** Declares all commands, and runs the command that the arguments name. */
import { Command, CommanderError } from 'commander'
import { VERSION } from '../version.ts'
import { addClientCommands } from './client-commands.ts'
import { addCompletion } from './completion.ts'
import { CommandError, printError, printLine } from './input-output.ts'
import { addOperatorCommands } from './operator-commands.ts'

const HELP = `
To start a server, run \`parley serve\`. To send a message to a server, set PARLEY_URL and PARLEY_API_KEY and run
\`parley send Hello\`. For examples, run \`parley COMMAND --help\`.`

/** Resolves with the exit code. Usage and configuration errors are printed without a stack trace. */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  let exitCode = 0
  const program = declareCommands((code) => {
    exitCode = code
  })
  try {
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode
    const expected = await expectedError(error)
    printError(expected.message)
    return expected instanceof CommandError ? expected.exitCode : 1
  }
  return exitCode
}

/** Rethrows a bug. The error classes are imported only here, because most commands do not need their modules. */
async function expectedError(error: unknown): Promise<Error> {
  if (error instanceof CommandError) return error
  const { ConfigurationError } = await import('../config/file.ts')
  const { DatabaseProblem } = await import('../store/database-problem.ts')
  if (error instanceof ConfigurationError || error instanceof DatabaseProblem) return error
  throw error
}

export function declareCommands(exit: (code: number) => void): Command {
  const program = new Command('parley')
    .description(
      'Runs AI message jobs. The answer comes in the same response, by polling, or by a signed callback.',
    )
    .version(VERSION)
    .addHelpText('after', HELP)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => printLine(text.trimEnd()),
      writeErr: (text) => printError(text.trimEnd()),
    })
  program.commandsGroup('Client commands:')
  addClientCommands(program, exit)
  program.commandsGroup('Server commands:')
  addOperatorCommands(program, exit)
  program.commandsGroup('Other commands:').helpCommand('help [command]')
  addCompletion(program.command('completion'), program)
  return program
}
