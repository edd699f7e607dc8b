/**
 * Starts and ends child processes. None of them outlives the benchmark: its own scripts exit when their channel closes, and the
 * benchmark kills all others when it exits.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { cpuMsOf, rssBytesOf } from './process-figures.ts'

export interface ChildOptions {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** Only a process that opens more files than the shell allows by default needs this. */
  readonly openFiles?: number
  readonly channel?: boolean
}

const START_MS = 60_000
const STOP_MS = 60_000
const running = new Set<ChildProcess>()

/** A benchmark that failed may have left these processes. */
export function killAll(): void {
  for (const child of running) child.kill('SIGKILL')
}

process.on('exit', killAll)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))

export class Child {
  readonly name: string
  readonly pid: number
  readonly #process: ChildProcess
  readonly #ended: Promise<void>
  /** The end of the process's output explains an unexpected exit. */
  #output = ''
  #onOutput: (() => void)[] = []

  constructor(options: ChildOptions) {
    const [command, args] = commandLine(options)
    this.name = options.name
    this.#process = spawn(command, args, {
      ...(options.cwd !== undefined && { cwd: options.cwd }),
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe', ...(options.channel === true ? (['ipc'] as const) : [])],
    })
    if (this.#process.pid === undefined) throw new Error(`${options.name}: ${command} did not start`)
    this.pid = this.#process.pid
    running.add(this.#process)
    this.#ended = new Promise((resolve) => {
      this.#process.once('exit', () => {
        running.delete(this.#process)
        for (const look of this.#onOutput.splice(0)) look()
        resolve()
      })
    })
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output = (this.#output + text).slice(-16_384)
        for (const look of this.#onOutput.splice(0)) look()
      })
    }
  }

  get hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null
  }

  get output(): string {
    return this.#output
  }

  async printed(pattern: RegExp, ms = START_MS): Promise<RegExpExecArray> {
    const untilMs = performance.now() + ms
    for (;;) {
      const match = pattern.exec(this.#output)
      if (match) return match
      if (this.hasEnded || performance.now() > untilMs) {
        throw new Error(`${this.name} did not print ${pattern}; it printed:\n${this.#output}`)
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 500)
        this.#onOutput.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    }
  }

  tell(message: object): void {
    this.#process.send(message)
  }

  hear<T extends object>(kind: string): Promise<T> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#process.off('message', look)
        this.#process.off('exit', fail)
      }
      const look = (message: unknown) => {
        if ((message as { kind?: unknown }).kind !== kind) return
        leave()
        resolve(message as T)
      }
      const fail = () => {
        leave()
        reject(new Error(`${this.name} ended before it said ${kind}; it printed:\n${this.#output}`))
      }
      this.#process.on('message', look)
      this.#process.once('exit', fail)
      if (this.hasEnded) fail()
    })
  }

  ask<T extends object>(message: object, answer: string): Promise<T> {
    const heard = this.hear<T>(answer)
    this.tell(message)
    return heard
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name)
  }

  cpuMs(): number {
    return cpuMsOf(this.pid)
  }

  rssBytes(): number {
    return rssBytesOf(this.pid)
  }

  async stop(): Promise<void> {
    if (!this.hasEnded) this.#process.kill('SIGTERM')
    const force = setTimeout(() => this.#process.kill('SIGKILL'), STOP_MS)
    await this.#ended
    clearTimeout(force)
  }

  /** Ends the process as abruptly as a power cut would. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#ended
  }
}

/** `npm start` uses these flags. Here they apply to Parley and to the scripts of the benchmarks. */
export const RUNTIME_FLAGS = ['--max-semi-space-size=64']

/** Resolves with the message in which the script reports that it is ready. */
export async function startScript<Ready extends object>(
  script: URL,
  options: Omit<ChildOptions, 'command' | 'args' | 'channel'> & {
    readonly settings?: object
    readonly nodeOptions?: readonly string[]
  },
): Promise<{ readonly child: Child; readonly ready: Ready }> {
  const args = [...(options.nodeOptions ?? []), script.pathname, JSON.stringify(options.settings ?? {})]
  const child = new Child({
    ...options,
    command: process.execPath,
    args: [...RUNTIME_FLAGS, ...args],
    channel: true,
  })
  return { child, ready: await child.hear<Ready>('ready') }
}

/** `sh` is replaced by the program that it starts, so the process ID stays the same. */
function commandLine({ command, args, openFiles }: ChildOptions): [string, string[]] {
  const whole =
    openFiles === undefined
      ? [command, ...args]
      : ['sh', '-c', `ulimit -n ${openFiles}; exec "$@"`, 'sh', command, ...args]
  const [first = '', ...rest] = whole
  return [first, rest]
}
