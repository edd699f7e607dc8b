/**
 * Runs commands of the program in one process, one after the other, because loading the program takes longer than most
 * commands. `Installation.parley` uses this file.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { CommandLine, Printed } from './many-commands-process.ts'

const PROCESS = fileURLToPath(new URL('many-commands-process.ts', import.meta.url))

let child: ChildProcess | undefined
let last: Promise<unknown> = Promise.resolve()

/** Resolves when the command has ended and nothing would keep its process alive. */
export function runTogether(command: CommandLine): Promise<Printed> {
  const printed = last.then(() => run(command))
  last = printed.catch(() => {})
  return printed
}

async function run(command: CommandLine): Promise<Printed> {
  child ??= start()
  const running = child
  // Between commands, the process must not keep the tests alive.
  running.ref()
  running.channel?.ref()
  const ended = new AbortController()
  try {
    const exited = once(running, 'exit', ended).then(([code, signal]) => {
      child = undefined
      throw new Error(`the process of the commands ended with ${code ?? signal} at ${command.args.join(' ')}`)
    })
    const answer = once(running, 'message', ended)
    running.send(command)
    const [printed] = (await Promise.race([answer, exited])) as [Printed]
    return printed
  } finally {
    ended.abort()
    running.unref()
    running.channel?.unref()
  }
}

function start(): ChildProcess {
  const started = fork(PROCESS)
  process.once('exit', () => started.kill('SIGKILL'))
  return started
}
