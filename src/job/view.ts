/** The `data` object of a read (SPEC §2.5), as JSON text, so that stored results are sent without being parsed. */
import type { Status } from './job.ts'

export interface JobView {
  readonly id: string
  readonly status: Status
  readonly createdAtMs: number
  readonly contentJson: string | null
  readonly errorJson: string | null
}

export function jobViewJson({ id, status, createdAtMs, contentJson, errorJson }: JobView): string {
  const result = contentJson === null ? 'null' : `{"response_content":${contentJson}}`
  const createdAt = Math.floor(createdAtMs / 1000)
  return `{"status":"${status}","job_id":"${id}","created_at":${createdAt},"result":${result},"error":${errorJson ?? 'null'}}`
}
