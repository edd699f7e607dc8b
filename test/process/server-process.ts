/**
 * Runs the real program as processes: a folder with a configuration and a database, servers on it, and commands that run in it.
 * When the test ends, processes that are still running are killed by their IDs, and the folder is removed.
 *
 * ```ts
 * const place = await installation(t, { upstream: modelServer.baseUrl, settings: { jobs: { concurrency: 8 } } })
 * const server = await place.start()
 * const key = await server.firstKey()
 * server.kill('SIGTERM')
 * assert.deepEqual(await server.exited, { code: 0, signal: null })
 * ```
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Lifetime } from '../parley.ts'
import { Caller } from './caller.ts'
import { runTogether } from './many-commands.ts'

export const CLONE = fileURLToPath(new URL('../..', import.meta.url))
export const MAIN = join(CLONE, 'src/main.ts')

export interface InstallationOptions {
  /** `parley.config.json` contains these settings. Without `tiers`, reads of accounts of tier user_max are not limited. */
  readonly settings?: Readonly<Record<string, unknown>>
  /** All models use the model server at this URL. Without it, and without upstreams in `settings`, the simulator answers. */
  readonly upstream?: string
  /** By default, the database is a SQLite file in the folder. */
  readonly databaseUrl?: string
}

export interface ProgramOptions {
  /**
   * The program gets these variables in addition to those of every program of the installation. Undefined removes a variable.
   */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly cwd?: string
  readonly args?: readonly string[]
  readonly heapMib?: number
  /** The file is the program's source in another clone. */
  readonly main?: string
  readonly stdin?: string
  readonly alone?: boolean
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface Ended extends Exit {
  readonly stdout: string
  readonly stderr: string
}

export async function installation(t: Lifetime, options: InstallationOptions = {}): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-process-'))
  const place = new Installation(folder, options)
  t.after(() => place.remove())
  await place.configure(options.settings ?? {})
  return place
}

export class Installation {
  readonly folder: string
  readonly database: string
  readonly #databaseUrl: string
  readonly #upstream: string | undefined
  readonly #simulator: { readonly PARLEY_SIMULATOR?: 'true' }
  readonly #programs: Program[] = []
  readonly #callers: Caller[] = []

  constructor(folder: string, { upstream, databaseUrl, settings = {} }: InstallationOptions) {
    this.folder = folder
    this.database = join(folder, 'parley.db')
    this.#databaseUrl = databaseUrl ?? `sqlite:${this.database}`
    this.#upstream = upstream
    // Without this variable, the simulator only answers on SQLite.
    const isSimulated =
      databaseUrl !== undefined && upstream === undefined && settings.upstreams === undefined
    this.#simulator = isSimulated ? { PARLEY_SIMULATOR: 'true' } : {}
  }

  /** Programs find `parley.config.json` in their working directory from now on. */
  async configure(settings: Readonly<Record<string, unknown>>): Promise<void> {
    const unlimited = { tiers: { user_max: { reads_per_minute: 1_000_000_000 } } }
    await writeFile(join(this.folder, 'parley.config.json'), JSON.stringify({ ...unlimited, ...settings }))
  }

  async start(options: ProgramOptions = {}): Promise<Server> {
    const { main = MAIN, args = [], heapMib } = options
    const heap = heapMib === undefined ? [] : [`--max-old-space-size=${heapMib}`]
    return this.startAs([process.execPath, ...heap, main, 'serve', ...args], options)
  }

  /** Starts a server by a command of the test, such as npm or strace. */
  async startAs(command: readonly string[], options: ProgramOptions = {}): Promise<Server> {
    const program = this.spawn(command, options)
    const [, url = ''] = await program.line(/listening on (http:\/\/\S+)\n/)
    return new Server(program, url, (key) => this.#caller(url, key))
  }

  async parley(args: readonly string[], options: ProgramOptions = {}): Promise<Ended> {
    const { env, stdin = '', main, alone } = options
    if (main === undefined && !alone) {
      const command = { args, cwd: this.folder, env: this.environment(env), stdin }
      return { ...(await runTogether(command)), signal: null }
    }
    const program = this.spawn([process.execPath, main ?? MAIN, ...args], options)
    program.write(stdin)
    return program.ended()
  }

  /** The command must succeed. Resolves with what it prints on standard output. */
  async output(args: readonly string[], options: ProgramOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.parley(args, options)
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
    return stdout
  }

  /** Does the same as `output` with `--json`. Resolves with the parsed output. */
  // biome-ignore lint/suspicious/noExplicitAny: tests inspect output of every shape, and fail if it is wrong.
  async json(args: readonly string[], options: ProgramOptions = {}): Promise<any> {
    return JSON.parse(await this.output([...args, '--json'], options))
  }

  async key(account: string, tier = 'user_max'): Promise<string> {
    return (await this.output(['keys', 'create', '--account', account, '--tier', tier])).trim()
  }

  environment(more: ProgramOptions['env'] = {}): NodeJS.ProcessEnv {
    return {
      ...outerEnvironment(),
      DATABASE_URL: this.#databaseUrl,
      PORT: '0',
      ...this.#simulator,
      // Without this setting, a server starts with 8 concurrent calls to an unknown model server, and tests would have to wait
      // for more.
      ...(this.#upstream && { OPENAI_BASE_URL: this.#upstream, OPENAI_MAX_CONCURRENCY: '256' }),
      ...more,
    }
  }

  /** The program gets its own process group, so that processes that it starts can be ended with it. */
  spawn([command = '', ...args]: readonly string[], { env, cwd }: ProgramOptions = {}): Program {
    const child = spawn(command, args, {
      cwd: cwd ?? this.folder,
      detached: true,
      env: this.environment(env),
    })
    const program = new Program(child)
    this.#programs.push(program)
    outlivedByNone(program)
    return program
  }

  async remove(): Promise<void> {
    for (const program of this.#programs) program.killGroup()
    await Promise.all(this.#programs.map(({ exited }) => exited))
    await Promise.all(this.#callers.map((caller) => caller.close()))
    await rm(this.folder, { recursive: true, force: true })
  }

  #caller(url: string, key: string): Caller {
    const caller = new Caller(url, key)
    this.#callers.push(caller)
    return caller
  }
}

const living = new Set<Program>()

/** Ends the program when the tests end, even if they are interrupted. */
function outlivedByNone(program: Program): void {
  if (living.size === 0 && process.listenerCount('exit', killLiving) === 0) {
    process.on('exit', killLiving)
    // If a file fails before its tests run, Node exits without that event, and without the hooks of the file.
    process.on('uncaughtExceptionMonitor', killLiving)
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  }
  living.add(program)
  void program.exited.then(() => living.delete(program))
}

function killLiving(): void {
  for (const program of living) program.killGroup()
}

/**
 * The tests may run with variables that configure Parley, or that show that npm has started them. Programs must not inherit
 * these.
 */
function outerEnvironment(): NodeJS.ProcessEnv {
  const ours = /^(OPENAI_|PARLEY_|OTEL_|npm_|NODE_TEST_CONTEXT$|DATABASE_URL$|HOST$|PORT$|LOG_LEVEL$)/i
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)))
}

export class Program {
  /** Resolves when the process has ended and all output has been read, including that of processes that it started. */
  readonly exited: Promise<Exit>
  stdout = ''
  stderr = ''
  readonly #child: ChildProcess
  readonly #watchers = new Set<() => void>()
  #ended = false

  constructor(child: ChildProcess) {
    this.#child = child
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
      for (const look of this.#watchers) look()
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
      for (const look of this.#watchers) look()
    })
    this.exited = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null) => {
        this.#ended = true
        for (const look of this.#watchers) look()
        resolve({ code, signal })
      }
      child.once('close', end)
      // The program could not be started.
      child.once('error', (error) => {
        this.stderr += String(error)
        end(null, null)
      })
    })
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error('the program was not started')
    return this.#child.pid
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  write(text: string): void {
    // The program may have ended without reading its input.
    this.#child.stdin?.on('error', () => {}).end(text)
  }

  async ended(): Promise<Ended> {
    return { ...(await this.exited), stdout: this.stdout, stderr: this.stderr }
  }

  /** Kills the process and everything that it started. Does nothing if all of it has ended. */
  killGroup(): void {
    if (this.#ended || this.#child.pid === undefined) return
    try {
      process.kill(-this.#child.pid, 'SIGKILL')
    } catch {
      // The process has ended, but its event has not arrived here yet.
    }
  }

  /** Resolves when standard output contains a match. Rejects if the program ends without one. */
  line(pattern: RegExp): Promise<RegExpExecArray> {
    return this.#said(pattern, () => this.stdout)
  }

  /** Resolves when the log, which is on standard error, contains a match. */
  logged(pattern: RegExp): Promise<RegExpExecArray> {
    return this.#said(pattern, () => this.stderr)
  }

  #said(pattern: RegExp, where: () => string): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(where())
        if (!match && !this.#ended) return
        this.#watchers.delete(look)
        if (match) resolve(match)
        else reject(new Error(`it ended without saying ${pattern}: ${this.stdout}\n${this.stderr}`))
      }
      this.#watchers.add(look)
      look()
    })
  }
}

export class Server {
  readonly url: string
  readonly program: Program
  readonly exited: Promise<Exit>
  readonly #makeCaller: (key: string) => Caller

  constructor(program: Program, url: string, makeCaller: (key: string) => Caller) {
    this.program = program
    this.exited = program.exited
    this.url = url
    this.#makeCaller = makeCaller
  }

  async firstKey(): Promise<string> {
    const [, key = ''] = await this.program.line(/^ {2}(prl_\w+)\n/m)
    return key
  }

  caller(key: string): Caller {
    return this.#makeCaller(key)
  }

  kill(signal: NodeJS.Signals): void {
    this.program.kill(signal)
  }

  async crash(): Promise<void> {
    this.kill('SIGKILL')
    await this.exited
  }

  async stop(): Promise<Exit> {
    this.kill('SIGTERM')
    return this.exited
  }
}
