/**
 * Runs a real Postgres with its own data folder and port, which tests can stop and start. Commits are written to the disk as in
 * production, because tests need their own cluster to test exactly that.
 *
 * ```ts
 * const cluster = await startCluster()
 * t.after(() => cluster.stop())
 * const client = new Client(cluster.url())
 * await cluster.restart('immediate')   // as after a power cut: the next start replays what was committed
 * ```
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, closeSync, openSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { Client } from 'pg'
import { home } from './home.ts'
import { ENVIRONMENT, type Installation, installation, runAs } from './installation.ts'

export interface ClusterOptions {
  /** These settings replace or extend `SETTINGS`. */
  readonly settings?: Readonly<Record<string, string | number>>
  readonly port?: number
}

/** `fast` ends all sessions and shuts down in order. `immediate` stops as in a crash. */
export type Stop = 'fast' | 'immediate'

const SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: 200,
  shared_buffers: '64MB',
  fsync: 'on',
  synchronous_commit: 'on',
}

/** Recovery takes seconds on a busy machine, so a start may take this long. */
const START_MS = 60_000

/** Resolves when the cluster accepts connections. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const made = await installation()
  for (let attempt = 1; ; attempt++) {
    const cluster = await Cluster.create(made, options.port ?? (await freePort()), options.settings ?? {})
    try {
      await cluster.start()
      return cluster
    } catch (error) {
      const portTaken = cluster.log().includes('could not bind')
      await cluster.stop()
      if (portTaken && options.port === undefined && attempt < 5) continue
      throw error
    }
  }
}

export class Cluster {
  readonly folder: string
  readonly port: number
  readonly #installation: Installation
  readonly #settings: Readonly<Record<string, string | number>>
  #server: ChildProcess | undefined

  private constructor(
    made: Installation,
    folder: string,
    port: number,
    settings: ClusterOptions['settings'],
  ) {
    this.#installation = made
    this.folder = folder
    this.port = port
    this.#settings = { ...SETTINGS, ...settings, port }
  }

  static async create(
    made: Installation,
    port: number,
    settings: ClusterOptions['settings'],
  ): Promise<Cluster> {
    const folder = await mkdtemp(join(home().folder, 'cluster-'))
    const { account, template } = made
    if (account) chownSync(folder, account.uid, account.gid)
    const cluster = new Cluster(made, folder, port, settings)
    await runAs(account, 'cp', '-Rp', template, cluster.#data)
    return cluster
  }

  url(database = 'postgres'): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`
  }

  /** The server's sessions are other processes. */
  get pid(): number {
    if (this.#server?.pid === undefined) throw new Error('the cluster does not run')
    return this.#server.pid
  }

  async start(): Promise<void> {
    if (this.#server) throw new Error('the cluster runs already')
    const log = openSync(this.#log, 'a')
    const settings = Object.entries(this.#settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const server = spawn(this.#installation.postgres, ['-D', this.#data, ...settings], {
      ...this.#installation.account,
      cwd: this.folder,
      env: ENVIRONMENT,
      // Ctrl-C must not interrupt the server, so it gets its own process group. The watcher ends it.
      detached: true,
      stdio: ['ignore', 'ignore', log],
    })
    closeSync(log)
    // The server must not keep this process alive. Calls that wait for the server do.
    server.unref()
    const { pid } = server
    if (pid === undefined) {
      const [error] = await once(server, 'error')
      throw error
    }
    home().runs(pid)
    this.#server = server
    server.once('exit', () => {
      home().ended(pid)
      this.#server = undefined
    })
    await this.#ready()
  }

  /** Resolves when the server and all its sessions have ended. */
  async stopNow(how: Stop): Promise<void> {
    const server = this.#server
    if (!server) return
    server.ref()
    const exited = once(server, 'exit')
    server.kill(SIGNALS[how])
    await exited
  }

  async restart(how: Stop): Promise<void> {
    await this.stopNow(how)
    await this.start()
  }

  async stop(): Promise<void> {
    await this.stopNow('immediate')
    await rm(this.folder, { recursive: true, force: true })
  }

  log(): string {
    return readFileSync(this.#log, 'utf8')
  }

  get #data(): string {
    return join(this.folder, 'data')
  }

  get #log(): string {
    return join(this.folder, 'log')
  }

  async #ready(): Promise<void> {
    const before = performance.now() + START_MS
    while (!(await this.#answers())) {
      if (!this.#server) throw new Error(`Postgres did not start:\n${this.log()}`)
      if (performance.now() > before) throw new Error(`Postgres takes too long to start:\n${this.log()}`)
      await setTimeout(10)
    }
  }

  /** Another Postgres may have taken the port, so this checks that the server that responds is this cluster. */
  async #answers(): Promise<boolean> {
    const client = new Client(this.url())
    // Errors of an established connection are reported twice: here and by the call.
    client.on('error', () => {})
    try {
      await client.connect()
      const { rows } = await client.query<{ data_directory: string }>('show data_directory')
      return rows[0]?.data_directory === this.#data
    } catch {
      return false
    } finally {
      await client.end()
    }
  }
}

/**
 * The port is below the range from which systems take ports for outgoing connections. An outgoing connection could take a port
 * of that range while the cluster restarts. A connection to the port could even connect to itself.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000)
    const server = createServer()
    try {
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      return port
    } catch {
    } finally {
      server.close()
    }
  }
}
