/**
 * Runs several nodes, as processes, on one Postgres. Callers use any of them, as behind a load balancer: if a node refuses a
 * connection, they try the next.
 *
 * ```ts
 * const fleet = await startFleet(t, { nodes: 3, upstream: models.baseUrl })
 * const reply = await fleet.ask((caller) => caller.single('Hello'))
 * await fleet.nodes[0]?.crash()
 * ```
 */
import assert from 'node:assert/strict'
import pg from 'pg'
import type { Lifetime } from '../parley.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import type { Caller, Reply } from '../process/caller.ts'
import {
  type Ended,
  type Installation,
  installation,
  type ProgramOptions,
  type Server,
} from '../process/server-process.ts'
import { eventually } from '../support/eventually.ts'

export interface FleetOptions {
  readonly nodes: number
  readonly upstream: string
  /** Settings below `jobs`. The default lease is so short that tests can wait for its end. */
  readonly jobs?: Readonly<Record<string, number>>
  readonly settings?: Readonly<Record<string, unknown>>
  /** By default, the fleet uses a database in the cluster that tests share. */
  readonly databaseUrl?: string
  /** If the program is a source file in another clone, that clone also creates the database. */
  readonly program?: ProgramOptions
}

/** With PARLEY_LONG=1, the lease is the default of real nodes. */
export const LEASE_S = process.env.PARLEY_LONG ? 30 : 3
/**
 * The jobs of a dead node must finish on other nodes within this time, in seconds. In the long form, this is the promise. In
 * the short form, it is what a busy machine needs.
 */
export const TAKEN_OVER_S = process.env.PARLEY_LONG ? 45 : 20

export async function startFleet(t: Lifetime, options: FleetOptions): Promise<Fleet> {
  const databaseUrl = options.databaseUrl ?? (await freshRealDatabase(t))
  const settings = {
    ...options.settings,
    jobs: { lease_seconds: LEASE_S, concurrency: 16, max_attempts: 1000, ...options.jobs },
  }
  const place = await installation(t, { upstream: options.upstream, settings, databaseUrl })
  const program: ProgramOptions = options.program ?? {}
  const createKey = ['keys', 'create', '--account', 'acme', '--tier', 'user_max']
  const key = (await place.output(createKey, program)).trim()
  const fleet = new Fleet(place, databaseUrl, key)
  // The command has created the database, so all nodes can start at once.
  await Promise.all(Array.from({ length: options.nodes }, () => fleet.add(program)))
  return fleet
}

export class Fleet {
  readonly nodes: Server[] = []
  readonly databaseUrl: string
  readonly key: string
  readonly #place: Installation
  readonly #callers = new Map<Server, Caller>()
  #next = 0

  constructor(place: Installation, databaseUrl: string, key: string) {
    this.#place = place
    this.databaseUrl = databaseUrl
    this.key = key
  }

  parley(args: readonly string[]): Promise<Ended> {
    return this.#place.parley(args)
  }

  async add(options: ProgramOptions = {}): Promise<Server> {
    const server = await this.#place.start(options)
    this.nodes.push(server)
    return server
  }

  caller(node: Server | undefined): Caller {
    if (!node) throw new Error('there is no such node')
    let caller = this.#callers.get(node)
    if (!caller) {
      caller = node.caller(this.key)
      this.#callers.set(node, caller)
    }
    return caller
  }

  remove(node: Server): void {
    this.nodes.splice(this.nodes.indexOf(node), 1)
  }

  /**
   * Tries one node after the other until one responds. Returns null if a connection broke. The outcome is then unknown, and
   * trying another node could do the work twice.
   */
  async ask(request: (caller: Caller) => Promise<Reply>): Promise<Reply | null> {
    for (;;) {
      const node = this.nodes[this.#next++ % this.nodes.length]
      try {
        return await request(this.caller(node))
      } catch (error) {
        const code = String((error as { code?: string }).code)
        if (/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/.test(code)) return null
        if (code !== 'ECONNREFUSED') throw error
      }
    }
  }

  async rows(sql: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    return this.#connected((client) => rowsOf(client, sql, values))
  }

  async until(signal: AbortSignal, sql: string, values: readonly unknown[] = []): Promise<void> {
    await this.#connected((client) =>
      eventually(
        () => rowsOf(client, `select (${sql}) as yes`, values),
        ([row]) => row?.yes === true,
        { signal },
      ),
    )
  }

  async #connected<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client(this.databaseUrl)
    await client.connect()
    try {
      return await work(client)
    } finally {
      await client.end()
    }
  }

  /** Resolves when no job is open, including those that were stored although the caller got no response. */
  async allSettled(signal: AbortSignal): Promise<void> {
    await this.until(signal, 'select not exists (select 1 from open_jobs)')
  }

  async assertAllSettledOnce(): Promise<number> {
    const [open] = await this.rows('select count(*)::int as jobs from open_jobs')
    const [left] = await this.rows(
      'select count(*)::int as jobs from jobs j where not exists (select 1 from outcomes o where o.id = j.id)',
    )
    const [all] = await this.rows('select count(*)::int as jobs from outcomes')
    assert.deepEqual([open?.jobs, left?.jobs], [0, 0])
    return Number(all?.jobs)
  }
}

export async function nodeName({ program }: Server): Promise<string> {
  const [, node = ''] = await program.logged(/"node":"(\w+)"/)
  return node
}

async function rowsOf(
  client: pg.Client,
  sql: string,
  values: readonly unknown[],
): Promise<Record<string, unknown>[]> {
  return (await client.query(sql, [...values])).rows
}
