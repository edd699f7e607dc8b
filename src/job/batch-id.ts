/** The IDs of batches in requests and responses: a prefix, and an ID like that of a job. */
import { readJobId } from './job-id.ts'

export const BATCH_PREFIX = 'batch_'

/** The batch of which a job is a line. */
export interface BatchOfJob {
  /** The stored form of the ID. */
  readonly id: string
  readonly custom_id: string
}

/** Returns the stored form; null if the text is not the ID of a batch. */
export function readBatchId(text: string): string | null {
  return text.startsWith(BATCH_PREFIX) ? readJobId(text.slice(BATCH_PREFIX.length)) : null
}
