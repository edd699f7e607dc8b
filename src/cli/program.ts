/** The command line: runs what it is given, and tells what went wrong in a few words. */
import { Command, CommanderError } from 'commander'
import { VERSION } from '../version.ts'
import { addBatch } from './batch/options.ts'
import { addJob, addSend } from './call/options.ts'
import { CommandError } from './command-error.ts'
import { addCompletion } from './completion/completion.ts'
import { addOperatorCommands } from './operator/commands.ts'
import { printError, printLine } from './output.ts'

const HELP = `
Start a server with \`parley serve\`; send to one with \`parley send Hello\`, with PARLEY_URL and PARLEY_API_KEY set.
\`parley COMMAND --help\` has examples.`

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
    printError(told.message)
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
    .addHelpText('after', HELP)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => printLine(text.trimEnd()),
      writeErr: (text) => printError(text.trimEnd()),
    })
  program.commandsGroup('Asking a server:')
  addSend(program.command('send'), exit)
  addJob(program.command('job'), exit)
  addBatch(program.command('batch'), exit)
  program.commandsGroup('Running one:')
  addOperatorCommands(program, exit)
  program.commandsGroup('Besides:').helpCommand('help [command]')
  addCompletion(program.command('completion'), program)
  return program
}
