/**
 * Transfers between databases: the contract of source and target, and the columns to copy, for both stores. Texts are copied in
 * their stored form, compressed or not.
 */
import type { Expiry } from './expiry.ts'
import { PIECE_BYTES } from './file-store.ts'
import { bytesOf, bytesOrNull, numberOf, numberOrNull, type Row, textOf, textOrNull } from './rows.ts'

/** While a source is open, no server can use its database. All reads see one snapshot. */
export interface TransferSource {
  /** Returns rows in order of their key, without expired cached responses and idempotency keys. */
  read(kind: Kind, nowMs: number): Batches
  close(): Promise<void>
}

/** A target stores everything or nothing. While it is open, no server can use its database. */
export interface TransferTarget {
  /** Call this in the order of `KINDS`. Returns how many rows were added. A row of a job that was not added is left out. */
  add(kind: Kind, rows: readonly Row[]): Promise<number>
  commit(): Promise<void>
  /** Without a commit, this discards everything that was added. */
  close(): Promise<void>
}

export interface TargetOptions {
  /** Determines the partitions, if the store has any. */
  readonly expiry: Expiry
  /** The operator should know these facts. They do not stop the transfer. */
  readonly onNote: (message: string) => void
}

/** Each batch is small enough to hold in memory. */
export type Batches = AsyncIterable<readonly Row[]>

/** Larger batches would take more memory and hardly save time. */
export const BATCH_ROWS = 1000
export const BATCH_WEIGHT = 4 * 1024 * 1024

/** The type in Postgres. SQLite stores text, numbers and bytes, and booleans as 0 and 1. */
type Type = 'uuid' | 'text' | 'bytea' | 'integer' | 'bigint' | 'numeric' | 'double precision' | 'boolean'
/** `?` means that the column may be null. `sqlite` and `postgres` name the tables with the column, separated by spaces. */
type Column = readonly [type: Type | `${Type}?`, sqlite: string, postgres: string]
type Columns = Readonly<Record<string, Column>>

interface KindOfRow {
  readonly title: string
  readonly table: string
  readonly key: readonly string[]
  readonly columns: Columns
  readonly batchRows?: number
}

function both(table: string, namesOf: { readonly [type in Column[0]]?: readonly string[] }): Columns {
  const columns = Object.entries(namesOf).flatMap(([type, names]) =>
    names.map((name) => [name, [type as Column[0], table, table]] as const),
  )
  return Object.fromEntries(columns)
}

export const KINDS = {
  accounts: {
    title: 'accounts',
    table: 'accounts',
    key: ['name'],
    columns: both('accounts', {
      text: ['name', 'tier', 'secret'],
      'text?': ['previous_secret', 'webhook_url'],
      'bigint?': [
        'rotated_at_ms',
        'suspended_at_ms',
        'cap_jobs',
        'cap_tokens',
        'cap_open_jobs',
        'cap_stored_bytes',
        'cap_cost',
      ],
    }),
  },
  keys: {
    title: 'keys',
    table: 'keys',
    key: ['id'],
    columns: both('keys', {
      text: ['id', 'account', 'hash'],
      'text?': ['label'],
      bigint: ['created_at_ms'],
      'bigint?': ['expires_at_ms', 'revoked_at_ms', 'used_at_ms'],
    }),
  },
  /**
   * The transfer leaves out expired jobs. It releases a job that a node holds to the head of the job's route, without another
   * crash.
   */
  jobs: {
    title: 'jobs',
    table: 'jobs',
    key: ['id'],
    columns: {
      id: ['uuid', 'jobs', 'jobs open_jobs outcomes'],
      account: ['text', 'jobs', 'jobs open_jobs'],
      tier: ['text', 'jobs', 'jobs'],
      model: ['text', 'jobs', 'jobs'],
      cache_ttl_s: ['double precision', 'jobs', 'jobs'],
      input_tokens: ['bigint', 'jobs', 'jobs'],
      created_at_ms: ['bigint', 'jobs', 'jobs'],
      priority: ['text?', 'jobs', 'jobs'],
      deadline_ms: ['bigint?', 'jobs', 'jobs open_jobs'],
      reserved: ['bigint?', 'jobs', 'jobs open_jobs'],
      messages: ['text?', 'requests', 'jobs'],
      messages_zstd: ['bytea?', 'requests', 'jobs'],
      messages_bytes: ['integer?', 'requests', 'jobs'],
      response_format: ['text', 'requests', 'jobs'],
      callback: ['text?', 'requests', 'jobs'],
      status: ['text', 'jobs', 'outcomes'],
      attempt: ['integer', 'jobs', 'open_jobs outcomes'],
      deaths: ['integer', 'jobs', 'open_jobs outcomes'],
      turn: ['bigint?', 'jobs', 'open_jobs'],
      route: ['text', 'jobs', 'open_jobs'],
      earlier: ['text?', 'jobs', 'open_jobs'],
      waits_since_ms: ['bigint?', 'jobs', 'open_jobs'],
      waited_ms: ['bigint?', 'jobs', 'open_jobs'],
      content: ['text?', 'outcomes', 'outcomes'],
      content_zstd: ['bytea?', 'outcomes', 'outcomes'],
      content_bytes: ['integer?', 'outcomes', 'outcomes'],
      error: ['text?', 'outcomes', 'outcomes'],
      usage: ['text?', 'outcomes', 'outcomes'],
      receipt: ['text?', 'outcomes', 'outcomes'],
      claimed_at_ms: ['bigint?', 'jobs', 'outcomes'],
      settled_at_ms: ['bigint?', 'jobs', 'outcomes'],
      has_callback: ['boolean', 'jobs', 'open_jobs'],
      bytes: ['bigint', '', 'open_jobs outcomes'],
      node: ['text', '', 'outcomes'],
      counted: ['boolean', '', 'outcomes'],
      // The value is 1 while a batch still has to write the result of the job.
      in_batch: ['integer', '', ''],
      // These columns are not stored with the job: whether a node holds it, and the state of its callback.
      held: ['integer', '', ''],
      called_back: ['uuid?', '', ''],
      due_at_ms: ['bigint?', '', ''],
    },
  },
  /** A server of the target creates the jobs of open requests. */
  reruns: {
    title: 'reruns',
    table: 'reruns',
    key: ['id'],
    columns: both('reruns', {
      text: ['id'],
      uuid: ['original_id'],
      'uuid?': ['rerun_id'],
      integer: ['with_callback'],
      bigint: ['requested_at_ms'],
      'bigint?': ['ended_at_ms'],
      'text?': ['refusal'],
    }),
  },
  callbacks: {
    title: 'callbacks',
    table: 'callbacks',
    key: ['job_id'],
    columns: both('callbacks', {
      uuid: ['job_id'],
      text: ['account', 'attempts'],
      integer: ['lane', 'attempt', 'tries'],
      bigint: ['owed_since_ms'],
      'bigint?': ['due_at_ms', 'delivered_at_ms', 'failed_at_ms'],
    }),
  },
  cachedResponses: {
    title: 'cached responses',
    table: 'kept_answers',
    key: ['job_id'],
    columns: {
      job_id: ['uuid', '', 'kept_answers'],
      fingerprint: ['text', 'kept_answers', 'kept_answers'],
      kept_at_ms: ['bigint', '', 'kept_answers'],
      until_ms: ['bigint', 'kept_answers', 'kept_answers'],
    },
  },
  idempotencyKeys: {
    title: 'idempotency keys',
    table: 'idempotency',
    key: ['account', 'key'],
    columns: both('idempotency', {
      text: ['account', 'key', 'fingerprint', 'job_ids'],
      bigint: ['until_ms'],
    }),
  },
  usage: {
    title: 'usage',
    table: 'usage',
    key: ['account', 'month', 'model'],
    columns: both('usage', {
      text: ['account', 'month', 'model'],
      bigint: ['jobs', 'failed_jobs', 'cache_hits', 'calls'],
      numeric: ['input_tokens', 'output_tokens'],
      'numeric?': ['cost'],
    }),
  },
  /** Uploads in progress are left out. Unfinished files of batches are included. */
  files: {
    title: 'files',
    table:
      '(select id, account, filename, purpose, bytes, created_at_ms, case when complete then 1 else 0 end as complete, remove_at_ms from files where complete or remove_at_ms is null)',
    key: ['id'],
    columns: both('files', {
      text: ['id', 'account', 'filename', 'purpose'],
      bigint: ['bytes', 'created_at_ms'],
      boolean: ['complete'],
      'bigint?': ['remove_at_ms'],
    }),
  },
  filePieces: {
    title: 'the content of files',
    table:
      '(select p.* from file_pieces p join files f on f.id = p.file_id where f.complete or f.remove_at_ms is null)',
    key: ['file_id', 'piece'],
    columns: both('file_pieces', { text: ['file_id'], integer: ['piece'], bytea: ['content'] }),
    batchRows: BATCH_WEIGHT / PIECE_BYTES,
  },
  /** Open batches continue on the target. */
  batches: {
    title: 'batches',
    table: 'batches',
    key: ['id'],
    columns: both('batches', {
      text: ['id', 'account', 'status', 'endpoint', 'input_file_id', 'about', 'progress'],
      'text?': ['output_file_id', 'error_file_id'],
      bigint: ['version', 'created_at_ms', 'deadline_ms'],
      'bigint?': ['cancelling_at_ms', 'remove_at_ms'],
    }),
  },
  batchLines: {
    title: 'running lines of batches',
    table: 'batch_lines',
    key: ['batch_id', 'line'],
    columns: both('batch_lines', { text: ['batch_id', 'custom_id', 'job_id'], bigint: ['line'] }),
  },
  adminTokens: {
    title: 'admin tokens',
    table: 'admin_tokens',
    key: ['id'],
    columns: both('admin_tokens', {
      text: ['id', 'name', 'hash'],
      integer: ['read_only'],
      bigint: ['created_at_ms'],
      'bigint?': ['expires_at_ms', 'revoked_at_ms'],
    }),
  },
  auditEntries: {
    title: 'the audit log',
    table: 'audit',
    key: ['id'],
    columns: both('audit', {
      uuid: ['id'],
      bigint: ['at_ms'],
      text: ['who', 'what', 'details'],
      'text?': ['account', 'target', 'outcome'],
    }),
  },
} as const satisfies Readonly<Record<string, KindOfRow>>

export type Kind = keyof typeof KINDS
export const KIND_NAMES = Object.keys(KINDS) as Kind[]

export function batchRowsOf(kind: Kind): number {
  const { batchRows = BATCH_ROWS }: KindOfRow = KINDS[kind]
  return batchRows
}

export function columnsOf(kind: Kind): Columns {
  return KINDS[kind].columns
}

export function readerOf(kind: Kind): (row: Row) => Row {
  const columns = Object.entries(columnsOf(kind)).map(([name, [type]]) => [name, readerOfType(type)] as const)
  return (row) => {
    const read: Record<string, string | number | Uint8Array | null> = {}
    for (const [name, value] of columns) read[name] = value(row, name)
    return read
  }
}

function readerOfType(type: Column[0]) {
  if (type === 'bytea') return bytesOf
  if (type === 'bytea?') return bytesOrNull
  const isText = type.startsWith('uuid') || type.startsWith('text')
  if (type.endsWith('?')) return isText ? textOrNull : numberOrNull
  return isText ? textOf : numberOf
}

interface StoredTable {
  readonly table: string
  readonly names: string[]
  readonly types: string[]
  readonly isPartOf: (row: Row) => boolean
}

export function tablesOf(kind: Kind, store: 'sqlite' | 'postgres'): StoredTable[] {
  const tables = new Map<string, StoredTable>()
  for (const [name, [type, sqlite, postgres]] of Object.entries(columnsOf(kind))) {
    for (const table of (store === 'sqlite' ? sqlite : postgres).split(' ').filter((one) => one !== '')) {
      const stored = tables.get(table) ?? { table, names: [], types: [], isPartOf: isPartOf(table) }
      tables.set(table, stored)
      stored.names.push(name)
      stored.types.push(type.replace('?', ''))
    }
  }
  return [...tables.values()]
}

/** Maps each column to the first table that has it; to an empty text if there is none. */
export function firstTables(kind: Kind, store: 'sqlite' | 'postgres'): Readonly<Record<string, string>> {
  const columns = Object.entries(columnsOf(kind)).map(([name, [, sqlite, postgres]]) => {
    const [first = ''] = (store === 'sqlite' ? sqlite : postgres).split(' ')
    return [name, first] as const
  })
  return Object.fromEntries(columns)
}

function isPartOf(table: string): (row: Row) => boolean {
  if (table === 'open_jobs') return (row) => row.settled_at_ms === null
  if (table === 'outcomes') return (row) => row.settled_at_ms !== null
  return () => true
}

export function isOfJob(kind: Kind): boolean {
  return kind !== 'batchLines' && 'job_id' in columnsOf(kind)
}
