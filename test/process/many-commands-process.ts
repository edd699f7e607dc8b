/** Runs each command that `many-commands.ts` sends, in this one process, and replies with what the command printed. */
import module from 'node:module'
import { Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'

export interface CommandLine {
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  readonly stdin: string
}

export interface Printed {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const REST_MS = 5
/** These are the pipes to the tests, and objects that Node keeps for the next read of a file. */
const OURS: ReadonlySet<string> = new Set(['PipeWrap', 'FileHandleReadWrap'])

// main.ts does the same.
module.enableCompileCache()
const { runCommandLine } = await import('../../src/cli/program.ts')

async function run({ args, cwd, env, stdin }: CommandLine): Promise<Printed> {
  process.chdir(cwd)
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name]
  Object.assign(process.env, env)
  Object.defineProperty(process, 'stdin', { value: Readable.from([Buffer.from(stdin)]), configurable: true })
  const [stdout, stderr] = [recorded('stdout'), recorded('stderr')]
  const printed = (code: number) => ({ code, stdout: stdout(), stderr: stderr() })
  try {
    const code = await runCommandLine(args)
    await nothingIsActive()
    return printed(code)
  } catch (error) {
    return { ...printed(1), stderr: `${stderr()}${(error as Error).stack}\n` }
  } finally {
    // A command leaves listeners behind, because it expects its process to end.
    for (const event of ['SIGINT', 'SIGTERM', 'uncaughtException', 'unhandledRejection']) {
      process.removeAllListeners(event)
    }
  }
}

function recorded(name: 'stdout' | 'stderr'): () => string {
  const chunks: Buffer[] = []
  process[name].write = (chunk: string | Uint8Array, ...others: unknown[]) => {
    chunks.push(Buffer.from(chunk as string))
    const written = others.find((other) => typeof other === 'function')
    if (written) process.nextTick(written as () => void)
    return true
  }
  return () => Buffer.concat(chunks).toString()
}

/**
 * Resolves when only the pipes to the tests keep this process alive, so that a process of the command's own would have ended. A
 * command that leaves a connection or a thread open therefore hangs here, too.
 */
async function nothingIsActive(): Promise<void> {
  const isActive = (resource: string) => !OURS.has(resource)
  while (threads > 0 || process.getActiveResourcesInfo().some(isActive)) await setTimeout(REST_MS)
}

/** Running threads are not among the active resources. */
let threads = 0
process.on('worker', (thread) => {
  threads += 1
  thread.once('exit', () => {
    threads -= 1
  })
})

process.on('message', (command: CommandLine) => {
  void run(command).then((printed) => process.send?.(printed))
})
// A command may still be running when the tests are interrupted.
process.on('disconnect', () => process.exit())
