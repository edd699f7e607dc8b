/** How a finished job ended, for interfaces that distinguish more endings than SPEC §2.5. */
import type { JobError, Usage } from './job.ts'
import type { JobRecord } from './job-record.ts'

/** `incomplete`: the answer was truncated, or the model's content policy withheld it. */
export type Ending = 'completed' | 'incomplete' | 'cancelled' | 'failed'

/** The job must have finished. A failed one is incomplete if its answer was truncated, because it had to be JSON. */
export function endingOf({ status, errorJson, usageJson }: JobRecord): Ending {
  const error: JobError | null = errorJson === null ? null : JSON.parse(errorJson)
  if (error?.code === 'cancelled') return 'cancelled'
  if (error?.code === 'content_policy_violation') return 'incomplete'
  const usage: Usage | null = usageJson === null ? null : JSON.parse(usageJson)
  if (usage?.finish_reason === 'length') return 'incomplete'
  return status === 'completed' ? 'completed' : 'failed'
}
