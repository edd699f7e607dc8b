/**
 * Starts and ends child processes. Nothing that a benchmark started outlives it: its own scripts exit when their channel closes,
 * and all other processes are killed when it exits.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { cpuMsOf, rssBytesOf } from './process-figures.ts'

export interface ChildOptions {
  /** Names the process in messages. */
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** How many open files it needs, if that may exceed the shell's default. */
  readonly openFiles?: number
  /** Whether it exchanges messages with the benchmark, as the benchmark's own scripts do. */
  readonly channel?: boolean
}

const START_MS = 60_000
const STOP_MS = 60_000
const running = new Set<ChildProcess>()

/** Kills what is left of a benchmark that failed. */
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
  /** The last part of the process's output, which explains an unexpected exit. */
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

  /** Resolves with the first match of a pattern in the process's output. */
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

  /** Resolves with the next message of this kind. The script's own file defines the message, so its type is not checked. */
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

  /** Asks the process to end and waits; kills it if it does not. */
  async stop(): Promise<void> {
    if (!this.hasEnded) this.#process.kill('SIGTERM')
    const force = setTimeout(() => this.#process.kill('SIGKILL'), STOP_MS)
    await this.#ended
    clearTimeout(force)
  }

  /** Ends the process as abruptly as a power cut. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#ended
  }
}

/** The runtime flags of `npm start`, for Parley and for everything that it is compared with. */
export const RUNTIME_FLAGS = ['--max-semi-space-size=64']

/** Starts a benchmark script as a child process; resolves with the message that reports it ready. */
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

/** `sh` replaces itself by what it starts, so the process ID stays the same. */
function commandLine({ command, args, openFiles }: ChildOptions): [string, string[]] {
  const whole =
    openFiles === undefined
      ? [command, ...args]
      : ['sh', '-c', `ulimit -n ${openFiles}; exec "$@"`, 'sh', command, ...args]
  const [first = '', ...rest] = whole
  return [first, rest]
}
