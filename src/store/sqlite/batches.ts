/** Stores the callback that reports the end of a batch in SQLite, in the row of a finished job without a model (`NO_MODEL`). */

import type { BatchReport, BatchStep } from '../batch-store.ts'
import { advanceBatch } from '../batches.ts'
import { NO_MODEL } from '../job-rows.ts'
import { type Steps, sql } from '../sql.ts'
import { requestBytes } from '../stored-bytes.ts'
import { SQLITE } from './dialect.ts'
import type { ServedFile } from './open-file.ts'
import { runSteps, write } from './operation.ts'

export const batchStepOperations = {
  advanceBatch: write((file: ServedFile, step: BatchStep): boolean =>
    runSteps(file, advanceBatch(SQLITE, (report) => owe(file, report)).steps(step)),
  ),
}

function* owe(
  file: ServedFile,
  { batchId, account, callback, createdAtMs, nowMs }: BatchReport,
): Steps<void> {
  const seq = file.queue.takeSeq()
  yield sql`
    insert into jobs (id, seq, account, tier, model, status, attempt, deaths, cache_ttl_s, input_tokens, has_callback,
      created_at_ms, claimed_at_ms, settled_at_ms)
    values (${batchId}, ${seq}, ${account}, '', ${NO_MODEL}, 'completed', 0, 0, 0, 0, 1, ${createdAtMs}, ${nowMs}, ${nowMs})`
  yield sql`insert into requests (seq, messages, response_format, callback) values (${seq}, '[]', '{}', ${callback})`
  yield sql`insert into outcomes (seq, usage, receipt) values (${seq}, '{}', '{}')`
  yield sql`insert into callbacks (seq, job_id, account, owed_since_ms, due_at_ms)
    values (${seq}, ${batchId}, ${account}, ${nowMs}, ${nowMs})`
  file.quotas.add(account, 0, requestBytes('[]', '{}', callback) + 2, 0)
}
