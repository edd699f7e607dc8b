/** The process of many-commands.ts: runs each command that it gets, and replies with what the command printed. */
import { runCommandLine } from '../../src/cli/program.ts'

export interface CommandLine {
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
}

export interface Printed {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

type Stream = 'stdout' | 'stderr'

async function run({ args, cwd, env }: CommandLine): Promise<Printed> {
  const printed = { stdout: '', stderr: '' }
  process.chdir(cwd)
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name]
  Object.assign(process.env, env)
  const record = (stream: Stream) => {
    process[stream].write = (text: string | Uint8Array) => {
      printed[stream] += typeof text === 'string' ? text : Buffer.from(text).toString()
      return true
    }
  }
  record('stdout')
  record('stderr')
  try {
    return { code: await runCommandLine(args), ...printed }
  } catch (error) {
    // Node prints an unhandled error like this.
    return { code: 1, ...printed, stderr: `${printed.stderr}${(error as Error).stack}\n` }
  }
}

process.on('message', (command: CommandLine) => {
  void run(command).then((printed) => process.send?.(printed))
})
