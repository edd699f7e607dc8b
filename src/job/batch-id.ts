/** The IDs of batches as callers and operators see them: a prefix, and an ID like that of a job. */
import { readJobId } from './job-id.ts'

export const BATCH_PREFIX = 'batch_'

/** The batch whose line a job is. */
export interface BatchOfJob {
  /** As it is stored. */
  readonly id: string
  readonly custom_id: string
}

/** The ID as it is stored; null if the text is not the ID of a batch. */
export function readBatchId(text: string): string | null {
  return text.startsWith(BATCH_PREFIX) ? readJobId(text.slice(BATCH_PREFIX.length)) : null
}
