/** Stores the callback that reports the end of a batch in Postgres, in the row of a finished job without a model (`NO_MODEL`). */

import type { BatchReport } from '../batch-store.ts'
import { advanceBatch } from '../batches.ts'
import { NO_MODEL } from '../job-rows.ts'
import { raw, type Steps, sql } from '../sql.ts'
import { requestBytes } from '../stored-bytes.ts'
import { POSTGRES } from './dialect.ts'
import { QUOTA_COLUMNS } from './quotas.ts'

export const batchStepOperations = { advanceBatch: advanceBatch(POSTGRES, owe) }

function* owe({ batchId, account, callback, createdAtMs, nowMs }: BatchReport): Steps<void> {
  const id = sql`${batchId}::uuid`
  const at = sql`${Math.floor(nowMs)}::bigint`
  const bytes = sql`${requestBytes('[]', '{}', callback) + 2}::bigint`
  yield sql`
  with job as (
    insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback)
    values (${id}, ${account}, '', ${NO_MODEL}, 0, 0, ${Math.floor(createdAtMs)}::bigint, '[]', '{}', ${callback})
  ),
  outcome as (
    insert into outcomes (id, status, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms, counted, bytes)
    values (${id}, 'completed', '{}', '{}', '', 0, 0, ${at}, ${at}, true, ${bytes})
  ),
  owed as (
    insert into callbacks (job_id, account, owed_since_ms, due_at_ms) values (${id}, ${account}, ${at}, ${at})
  )
  insert into quota_deltas (${raw(QUOTA_COLUMNS)})
  values (${account}, hour_of_job(${id}), 0, 0, ${bytes}, 0)`
}
