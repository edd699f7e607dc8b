/** Makes databases to copy, and reads their contents, for tests of `parley copy`. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { TestContext } from 'node:test'
import { DatabaseProblem } from '../../src/store/database-problem.ts'
import { openTransferSource, openTransferTarget } from '../../src/store/open.ts'
import { type TransferCounts, transferDatabase } from '../../src/store/transfer.ts'
import { KIND_NAMES, type Kind, tablesOf } from '../../src/store/transfer-contract.ts'
import { type Population, populate } from './populated-database.ts'

const SEED = Number(process.env.PARLEY_TEST_SEED ?? Date.now() % 1_000_000)

let made: Promise<{ file: string; population: Population }> | null = null

async function make(): Promise<{ file: string; population: Population }> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-copy-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'parley.db')
  return { file, population: await populate(`sqlite:${file}`, SEED) }
}

export async function firstJob(source: Awaited<ReturnType<typeof openTransferSource>>) {
  for await (const [job] of source.read('jobs', 0)) if (job) return job
  throw new Error('there is no job')
}

/** Filling a file takes long, so it is filled once, and each test gets a copy of it. */
export async function populated(t: TestContext): Promise<{ file: string; population: Population }> {
  t.diagnostic(`PARLEY_TEST_SEED=${SEED}`)
  made ??= make()
  const { file: first, population } = await made
  const file = await newFile(t)
  await copyFile(first, file)
  return { file, population }
}

export async function newFile(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-copy-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'parley.db')
}

export interface Moment {
  readonly nowMs: number
  readonly retentionMs: number
}

export function target(url: string, { nowMs, retentionMs }: Moment) {
  return openTransferTarget(url, { expiry: { nowMs, retentionMs }, onNote: () => {} })
}

export async function copyAll(from: string, to: string, moment: Moment): Promise<Readonly<TransferCounts>> {
  const source = await openTransferSource(from)
  try {
    const into = await target(to, moment)
    try {
      return await transferDatabase(source, into, moment, () => {})
    } finally {
      await into.close()
    }
  } finally {
    await source.close()
  }
}

export async function refused(attempt: Promise<unknown>, says: RegExp): Promise<void> {
  await assert.rejects(attempt, (error) => {
    assert.ok(error instanceof DatabaseProblem, String(error))
    assert.match(error.message, says)
    return true
  })
}

export { connectPostgres as connect } from '../postgres/connection.ts'

export type Row = Record<string, unknown>

export function all(path: string, sql: string, ...values: number[]): Row[] {
  const db = new DatabaseSync(path)
  try {
    return db
      .prepare(sql)
      .all(...values)
      .map((row) => ({ ...row }))
  } finally {
    db.close()
  }
}

export function change(path: string, sql: string): void {
  const db = new DatabaseSync(path)
  db.exec(sql)
  db.close()
}

/** This SQL gives the turn of a job in a copy. A job that a node held comes first in its route. */
export const TURN = `case when j.node is null then j.turn else coalesce(
  (select min(q.turn) from jobs q where q.turn is not null and q.route = j.route), 0) end`

/** `rowsOf` then returns only the jobs that a copy of the file should contain. */
export function expected({ nowMs, retentionMs }: Population) {
  return { nowMs, retentionMs }
}

const JOB_ROWS: Readonly<Record<string, string>> = { jobs: 'j', requests: 'r', outcomes: 'o' }
/** A node held some of the jobs that are queued in a copy. */
const IN_COPY: Readonly<Record<string, string>> = {
  turn: TURN,
  claimed_at_ms: 'case when j.settled_at_ms is null then null else j.claimed_at_ms end',
}

function jobColumns(): string {
  const columns = tablesOf('jobs', 'sqlite').flatMap(({ table, names }) =>
    names.map((name) => `${IN_COPY[name] ?? `${JOB_ROWS[table]}.${name}`} as ${name}`),
  )
  return columns.join(', ')
}

/** Returns the rows of each kind, without what differs between files or nodes. */
export function rowsOf(path: string, only = { nowMs: 0, retentionMs: 0 }): Readonly<Record<Kind, Row[]>> {
  const { nowMs, retentionMs } = only
  const live = `(j.settled_at_ms is null or c.due_at_ms is not null
    or j.settled_at_ms + max(${retentionMs}, j.cache_ttl_s * 1000) > ${nowMs})`
  const jobs = `jobs j join requests r using (seq) left join outcomes o using (seq) left join callbacks c using (seq)`
  return {
    accounts: all(path, 'select * from accounts order by name'),
    keys: all(path, 'select * from keys order by id'),
    jobs: all(path, `select ${jobColumns()} from ${jobs} where ${live} order by j.id`),
    callbacks: all(path, `select c.* from ${jobs} where ${live} and c.seq is not null order by j.id`).map(
      (row) => ({ ...row, seq: 0, node: null, under_way: 0 }),
    ),
    cachedResponses: all(
      path,
      `select j.id, k.fingerprint, k.until_ms from kept_answers k join jobs j using (seq)
       where k.until_ms > ${nowMs} order by j.id`,
    ),
    idempotencyKeys: all(path, `select * from idempotency where until_ms > ${nowMs} order by account, key`),
    usage: all(path, 'select * from usage order by account, month, model'),
    files: all(path, 'select * from files order by id'),
    filePieces: all(
      path,
      'select file_id, piece, hex(content) as content from file_pieces order by file_id, piece',
    ),
    // The node that runs a batch is unknown in the other database.
    batches: all(path, 'select * from batches order by id').map((row) => ({ ...row, node: null })),
    batchLines: all(path, 'select * from batch_lines order by batch_id, line'),
    auditEntries: all(path, 'select * from audit order by id'),
    reruns: all(path, 'select * from reruns order by id').map((row) => ({ ...row, taken_at_ms: null })),
    adminTokens: all(path, 'select * from admin_tokens order by id'),
  }
}

/** Returns the columns, as TABLE.COLUMN, that contain null or their default in every row of these. */
export function emptyColumns(path: string, rows: Readonly<Record<Kind, readonly Row[]>>): string[] {
  return KIND_NAMES.flatMap((kind) =>
    tablesOf(kind, 'sqlite').flatMap(({ table, names }) => {
      const defaults = all(path, `select name, dflt_value from pragma_table_info('${table}')`)
      const defaultOf = new Map(defaults.map(({ name, dflt_value }) => [name, dflt_value]))
      const isDefault = (name: string, value: unknown) =>
        value === null || defaultOf.get(name) === (typeof value === 'string' ? `'${value}'` : String(value))
      return names
        .filter((name) => rows[kind].every((row) => isDefault(name, row[name])))
        .map((name) => `${table}.${name}`)
    }),
  )
}
