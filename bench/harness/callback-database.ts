/** Gives a Parley on either store a database, lets its callbacks go to this machine, and queries the database from outside. */
import { DatabaseSync } from 'node:sqlite'
import { assertEachSettledOnce } from './invariants.ts'
import type { Worked } from './load-run.ts'
import { DataFolder, Parley } from './parley.ts'
import { Postgres } from './postgres.ts'
import { assertEachSettledOnceOnPostgres } from './postgres-invariants.ts'

export type StoreName = 'sqlite' | 'postgres'

export interface CallbackDatabase {
  readonly url: string
  readonly dataFolder: DataFolder
  /** The CPU time of these processes counts as the database's. */
  readonly servers: readonly Worked[]
  start(options: CallbackParleyOptions): Promise<Parley>
  delivered(): Promise<number>
  owed(): Promise<number>
  openJobs(): Promise<number>
  /**
   * Throws unless every job is fully settled. Returns the number of jobs.
   * @param jobs the number that must be found, or null if some IDs may not have reached their callers
   */
  checkJobs(jobIds: readonly string[], jobs: number | null): Promise<number>
  remove(): Promise<void>
}

export interface CallbackParleyOptions {
  readonly modelPort: number
  readonly concurrency: number
  /** Limits jobs and upstream calls. The defaults apply if absent. */
  readonly jobs?: number
}

/** The receivers run on this machine, so callbacks must be able to reach it. */
const LOOPBACK = '127.0.0.0/8'
const DELIVERED = 'select count(*) as n from callbacks where delivered_at_ms is not null'
const OWED = 'select count(*) as n from callbacks where due_at_ms is not null'

export function openCallbackDatabase(store: StoreName): Promise<CallbackDatabase> {
  return store === 'sqlite' ? Promise.resolve(inFile()) : inPostgres()
}

function inFile(): CallbackDatabase {
  const dataFolder = new DataFolder()
  let reader: DatabaseSync | null = null
  const count = (sql: string) => {
    reader ??= new DatabaseSync(dataFolder.database, { readOnly: true })
    return Number(reader.prepare(sql).get()?.n)
  }
  return {
    url: `sqlite:${dataFolder.database}`,
    dataFolder,
    servers: [],
    start: (options) => startOn(dataFolder, options),
    delivered: async () => count(DELIVERED),
    owed: async () => count(OWED),
    openJobs: async () => count('select count(*) as n from jobs where settled_at_ms is null'),
    checkJobs: async (jobIds, jobs) => assertEachSettledOnce(dataFolder.database, jobIds, jobs),
    remove: async () => {
      reader?.close()
      dataFolder.remove()
    },
  }
}

async function inPostgres(): Promise<CallbackDatabase> {
  const postgres = await Postgres.start()
  const dataFolder = new DataFolder()
  return {
    url: postgres.url(),
    dataFolder,
    servers: [postgres],
    start: async (options) => {
      await postgres.settle()
      return startOn(dataFolder, options, postgres.url())
    },
    delivered: () => postgres.number(DELIVERED),
    owed: () => postgres.number(OWED),
    openJobs: () => postgres.number('select count(*) from open_jobs'),
    checkJobs: (jobIds, jobs) => assertEachSettledOnceOnPostgres(postgres, jobIds, jobs),
    remove: async () => {
      dataFolder.remove()
      await postgres.stop()
    },
  }
}

function startOn(
  dataFolder: DataFolder,
  { modelPort, concurrency, jobs }: CallbackParleyOptions,
  database?: string,
): Promise<Parley> {
  const callbacks = { allow_networks: [LOOPBACK], concurrency }
  const options = {
    ...(jobs !== undefined && { concurrency: jobs }),
    ...(database !== undefined && { database }),
  }
  return Parley.start({ modelPort, callbacks, ...options }, dataFolder)
}
