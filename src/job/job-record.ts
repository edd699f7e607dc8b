/**
 * A job as its account may read it (SPEC §2.5). Result and error are JSON text, so that stored results are sent without
 * being parsed.
 */
import type { Status } from './job.ts'

export interface JobRecord {
  readonly id: string
  readonly status: Status
  readonly createdAtMs: number
  readonly contentJson: string | null
  readonly errorJson: string | null
}

/** The `data` object of a read, as JSON text. */
export function jobRecordJson({ id, status, createdAtMs, contentJson, errorJson }: JobRecord): string {
  const result = contentJson === null ? 'null' : `{"response_content":${contentJson}}`
  const createdAt = Math.floor(createdAtMs / 1000)
  return `{"status":"${status}","job_id":"${id}","created_at":${createdAt},"result":${result},"error":${errorJson ?? 'null'}}`
}
