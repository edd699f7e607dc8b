/** Stores outcomes in SQLite. An outcome is stored only if the node still holds the job under the given attempt. */
import { storedText } from '../compressed-text.ts'
import { booleanOf, numberOf, numberOrNull, type Row, textOf } from '../rows.ts'
import { outcomeBytes } from '../stored-bytes.ts'
import { insertInto, type ValuesOf } from './inserts.ts'
import type { OpenFile, ServedFile } from './open-file.ts'
import { write } from './operation.ts'
import { COMPRESS_FROM_BYTES } from './texts.ts'

/** The event loop sends an outcome to the storage thread as an array. */
export type OutcomeCells = readonly [
  status: 'completed' | 'failed',
  content: string | null,
  error: string | null,
  usage: string,
  receipt: string,
  /** The answer is cached under this fingerprint; null if it must not be cached. */
  fingerprint: string | null,
  cachedUntilMs: number,
  nowMs: number,
]

interface EndedRow {
  readonly seq: number
  readonly jobId: string
  readonly account: string
  readonly model: string
  readonly owesCallback: boolean
  /** The account's number of open jobs changes by this. The change is 0 if a cached response completed the job at once. */
  readonly openJobs: -1 | 0
  /** The transaction stores this many bytes of the job in addition to the outcome. */
  readonly bytes: number
  /** While the job was open, it had reserved this cost. */
  readonly reserved: number
}

export const settleOperations = {
  /** Returns the row number of the outcome, which the index of cached responses needs. */
  settle: write(
    (
      file: ServedFile,
      jobId: string,
      node: string,
      attempt: number,
      outcome: OutcomeCells,
    ): number | 'stale' | 'gone' => {
      const [status, , , , , , , nowMs] = outcome
      const job = file.prepare(END_ATTEMPT).get(status, nowMs, jobId, node, attempt)
      if (!job) return file.prepare(EXISTS).get(jobId) ? 'stale' : 'gone'
      const seq = numberOf(job, 'seq')
      const [account, model] = [textOf(job, 'account'), textOf(job, 'model')]
      const owesCallback = booleanOf(job, 'has_callback')
      const ended = { openJobs: -1, bytes: 0, reserved: reservedOf(job) } as const
      const row = { seq, jobId, account, model, owesCallback, ...ended }
      storeOutcome(file, row, outcome)
      file.queue.settle()
      return seq
    },
  ),
}

/**
 * Stores the outcome, the cached response, the pending callback, the usage and the sums of quotas. The caller updates the row
 * in `jobs`.
 */
export function storeOutcome(
  file: OpenFile,
  { seq, jobId, account, model, owesCallback, openJobs, bytes, reserved }: EndedRow,
  [status, content, error, usageJson, receipt, fingerprint, cachedUntilMs, nowMs]: OutcomeCells,
): void {
  const { plain, compressed, bytes: contentBytes } = storedText(content, COMPRESS_FROM_BYTES)
  const values: OutcomeValues = [seq, plain, error, usageJson, receipt, compressed, contentBytes]
  file.prepare(INSERT_OUTCOME).run(...values)
  if (fingerprint !== null) file.prepare(CACHE_RESPONSE).run(seq, fingerprint, cachedUntilMs)
  if (owesCallback) file.prepare(OWE_CALLBACK).run(seq, jobId, account, nowMs)
  file.usage.add({ account, model, failed: status === 'failed', usageJson, nowMs })
  file.quotas.add(account, openJobs, bytes + outcomeBytes(content, error, receipt), -reserved)
}

export function reservedOf(job: Row): number {
  return numberOrNull(job, 'reserved') ?? 0
}

const END_ATTEMPT = `
  update jobs set status = ?, settled_at_ms = ?, node = null
  where id = ? and node = ? and attempt = ? and status = 'assigned' returning seq, has_callback, account, model, reserved`
const EXISTS = 'select 1 from jobs where id = ?'
const OUTCOME_COLUMNS = [
  ...(['seq', 'content', 'error', 'usage', 'receipt', 'content_zstd', 'content_bytes'] as const),
] as const
type OutcomeValues = ValuesOf<typeof OUTCOME_COLUMNS>
const INSERT_OUTCOME = insertInto('outcomes', OUTCOME_COLUMNS)
const CACHE_RESPONSE = 'insert into kept_answers (seq, fingerprint, until_ms) values (?, ?, ?)'
const OWE_CALLBACK =
  'insert into callbacks (seq, job_id, account, owed_since_ms, due_at_ms) values (?1, ?2, ?3, ?4, ?4)'
