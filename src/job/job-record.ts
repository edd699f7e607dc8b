/** A job as its account may read it (SPEC §2.5). Result and error are JSON text, because they are sent without being parsed. */
import type { JobError, Status, Usage } from './job.ts'

export interface JobRecord {
  readonly id: string
  readonly status: Status
  readonly createdAtMs: number
  readonly contentJson: string | null
  readonly errorJson: string | null
  readonly usageJson: string | null
  readonly waitsForBudget?: boolean
}

/** A response or callback contains these only if the caller requests them. */
export const INCLUDES = ['usage', 'metadata'] as const
export type Include = (typeof INCLUDES)[number]

/** Jobs without metadata are missing. The values are JSON text. */
export type MetadataById = ReadonlyMap<string, string>
export const NO_METADATA: MetadataById = new Map()

export function jobRecordJson(
  record: JobRecord,
  include: readonly Include[] = [],
  metadata: MetadataById = NO_METADATA,
): string {
  const { id, status, createdAtMs, contentJson, errorJson } = record
  const result = contentJson === null ? 'null' : `{"response_content":${contentJson}}`
  const createdAt = Math.floor(createdAtMs / 1000)
  const json = `{"status":"${status}","job_id":"${id}","created_at":${createdAt},"result":${result},"error":${errorJson ?? 'null'}`
  const usage = include.includes('usage') ? `,"usage":${usageViewJson(record)}${waitingFor(record)}` : ''
  return include.includes('metadata')
    ? `${json}${usage},"metadata":${metadata.get(id) ?? '{}'}}`
    : `${json}${usage}}`
}

/** Callers see this usage. The name of the upstream is omitted, because only operators should know it. */
export interface UsageView extends Omit<Usage, 'target' | 'finish_reason'> {
  readonly model: string | null
  readonly cached_input_tokens: number
  readonly finish_reason: 'stop' | 'length' | null
}

export function usageView(status: Status, usage: Usage): UsageView {
  const { target, input_tokens, cached_input_tokens = 0, output_tokens, calls, cost } = usage
  const { cache_hit, repaired } = usage
  return {
    model: target === null ? null : target.slice(target.indexOf('/') + 1),
    input_tokens,
    cached_input_tokens,
    output_tokens,
    ...(cost !== undefined && { cost }),
    calls,
    cache_hit,
    repaired,
    finish_reason: usage.finish_reason ?? (status === 'completed' ? 'stop' : null),
  }
}

function usageViewJson({ status, usageJson }: JobRecord): string {
  return usageJson === null ? 'null' : JSON.stringify(usageView(status, JSON.parse(usageJson)))
}

function waitingFor({ waitsForBudget }: JobRecord): string {
  return waitsForBudget === true ? ',"waiting_for":"budget"' : ''
}

export function hasEnded({ status }: Pick<JobRecord, 'status'>): boolean {
  return status === 'completed' || status === 'failed'
}

/**
 * Some APIs distinguish more endings than SPEC §2.5. An answer that was truncated, or withheld because of the model's content
 * policy, is `incomplete`.
 */
type Ending = 'completed' | 'incomplete' | 'cancelled' | 'failed'

/** The job must have finished. */
export function endingOf({ status, errorJson, usageJson }: JobRecord): Ending {
  const error: JobError | null = errorJson === null ? null : JSON.parse(errorJson)
  if (error?.code === 'cancelled') return 'cancelled'
  if (error?.code === 'content_policy_violation') return 'incomplete'
  const usage: Usage | null = usageJson === null ? null : JSON.parse(usageJson)
  if (usage?.finish_reason === 'length') return 'incomplete'
  return status === 'completed' ? 'completed' : 'failed'
}
