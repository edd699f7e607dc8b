/**
 * Counts the SQL statements and commits that a thread of the counted server runs, and the messages that the thread sends to
 * other threads. `--import` loads this file before everything else into each thread. The thread reports its counts on request
 * over a broadcast channel.
 */
import { subscribe } from 'node:diagnostics_channel'
import { createRequire } from 'node:module'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import { BroadcastChannel, isMainThread, parentPort, threadId, Worker } from 'node:worker_threads'

export const CHANNEL = 'parley counts'

export interface ThreadCounts {
  readonly statements: number
  readonly commits: number
  readonly messages: number
}

export interface ThreadReport extends ThreadCounts {
  readonly thread: number
  /** Statements, and requests to or from the thread, that have begun but not ended. */
  readonly running: number
}

const counts = { statements: 0, commits: 0, messages: 0, running: 0 }

function watch<T extends object>(owner: T, name: string, before: (...values: unknown[]) => void): void {
  const original = Reflect.get(owner, name) as (...values: unknown[]) => unknown
  Reflect.set(owner, name, function (this: unknown, ...values: unknown[]) {
    before(...values)
    return original.apply(this, values)
  })
}

const isCommit = (sql: unknown) => /^\s*commit/i.test(String(sql))

function countSqlite(): void {
  for (const name of ['all', 'get', 'iterate', 'run']) {
    watch(StatementSync.prototype, name, () => counts.statements++)
  }
  watch(DatabaseSync.prototype, 'exec', (sql) => {
    counts.statements++
    if (isCommit(sql)) counts.commits++
  })
}

/** A statement outside a transaction also counts as a commit. */
function countPostgres(): void {
  const { Client } = createRequire(import.meta.url)('pg') as typeof import('pg')
  const inTransaction = new WeakSet<object>()
  const original = Client.prototype.query as (...values: unknown[]) => unknown
  Reflect.set(Client.prototype, 'query', function (this: object, ...values: unknown[]) {
    const [query] = values
    const text = typeof query === 'string' ? query : String((query as { text?: string }).text)
    counts.statements++
    if (text === 'begin') inTransaction.add(this)
    else if (isCommit(text) || text === 'rollback') inTransaction.delete(this)
    if (isCommit(text) || !(inTransaction.has(this) || text === 'rollback')) counts.commits++
    const result = original.apply(this, values)
    if (result instanceof Promise) {
      counts.running++
      const ended = () => counts.running--
      result.then(ended, ended)
    }
    return result
  })
}

function countRequests(): void {
  const begun = ['http.server.request.start', 'undici:request:create']
  const ended = ['http.server.response.finish', 'undici:request:trailers', 'undici:request:error']
  for (const name of begun) subscribe(name, () => counts.running++)
  for (const name of ended) subscribe(name, () => counts.running--)
}

countSqlite()
if (isMainThread) {
  countPostgres()
  countRequests()
}
watch(parentPort ?? Worker.prototype, 'postMessage', () => counts.messages++)

// The main thread reads its own counts, so it does not answer.
const channel = new BroadcastChannel(CHANNEL)
channel.unref()
if (!isMainThread) {
  channel.onmessage = () => channel.postMessage({ thread: threadId, ...counts } satisfies ThreadReport)
}

export function ownReport(): ThreadReport {
  return { thread: threadId, ...counts }
}
