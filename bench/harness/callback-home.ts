/** Where a Parley that delivers callbacks keeps them, on either store: what a round asks of it from outside. */
import { DatabaseSync } from 'node:sqlite'
import { eachSettledOnce } from './gates.ts'
import type { Worked } from './load-run.ts'
import { Home, Parley } from './parley.ts'
import { Postgres } from './postgres.ts'
import { eachSettledOnceThere } from './postgres-gates.ts'

export type StoreName = 'sqlite' | 'postgres'

export interface CallbackHome {
  readonly url: string
  readonly home: Home
  /** Processes of the database, whose CPU time is its. */
  readonly servers: readonly Worked[]
  start(options: CallbackParleyOptions): Promise<Parley>
  /** Callbacks recorded as delivered, and as owed still. */
  delivered(): Promise<number>
  owed(): Promise<number>
  /** Every job is settled in every respect; throws where one is not. */
  checkJobs(jobIds: readonly string[], jobs: number): Promise<void>
  remove(): Promise<void>
}

export interface CallbackParleyOptions {
  readonly modelPort: number
  /** Callbacks in progress at once. */
  readonly concurrency: number
}

/** The receivers are on this machine. */
const LOOPBACK = '127.0.0.0/8'
const DELIVERED = 'select count(*) as n from callbacks where delivered_at_ms is not null'
const OWED = 'select count(*) as n from callbacks where due_at_ms is not null'

export function makeCallbackHome(store: StoreName): Promise<CallbackHome> {
  return store === 'sqlite' ? Promise.resolve(inFile()) : inPostgres()
}

function inFile(): CallbackHome {
  const home = new Home()
  let reader: DatabaseSync | null = null
  const count = (sql: string) => {
    reader ??= new DatabaseSync(home.database, { readOnly: true })
    return Number(reader.prepare(sql).get()?.n)
  }
  return {
    url: `sqlite:${home.database}`,
    home,
    servers: [],
    start: (options) => startOn(home, options),
    delivered: async () => count(DELIVERED),
    owed: async () => count(OWED),
    checkJobs: async (jobIds, jobs) => {
      eachSettledOnce(home.database, jobIds, jobs)
    },
    remove: async () => {
      reader?.close()
      home.remove()
    },
  }
}

async function inPostgres(): Promise<CallbackHome> {
  const postgres = await Postgres.start()
  const home = new Home()
  return {
    url: postgres.url(),
    home,
    servers: [postgres],
    start: async (options) => {
      await postgres.settle()
      return startOn(home, options, postgres.url())
    },
    delivered: () => postgres.number(DELIVERED),
    owed: () => postgres.number(OWED),
    checkJobs: (jobIds, jobs) => eachSettledOnceThere(postgres, jobIds, jobs),
    remove: async () => {
      home.remove()
      await postgres.stop()
    },
  }
}

function startOn(
  home: Home,
  { modelPort, concurrency }: CallbackParleyOptions,
  database?: string,
): Promise<Parley> {
  const callbacks = { allow_networks: [LOOPBACK], concurrency }
  return Parley.start({ modelPort, callbacks, ...(database !== undefined && { database }) }, home)
}
