/** How a finished job ended, in the terms of interfaces that tell more endings apart than SPEC §2.5. */
import type { JobError, Usage } from './job.ts'
import type { JobRecord } from './job-record.ts'

/** `incomplete`: the answer was cut at its length, or the model's content policy withheld it. */
export type Ending = 'completed' | 'incomplete' | 'cancelled' | 'failed'

/** Of a job that has finished. A failed one is incomplete, too, if its answer was cut: it had to be JSON. */
export function endingOf({ status, errorJson, usageJson }: JobRecord): Ending {
  const error: JobError | null = errorJson === null ? null : JSON.parse(errorJson)
  if (error?.code === 'cancelled') return 'cancelled'
  if (error?.code === 'content_policy_violation') return 'incomplete'
  const usage: Usage | null = usageJson === null ? null : JSON.parse(usageJson)
  if (usage?.finish_reason === 'length') return 'incomplete'
  return status === 'completed' ? 'completed' : 'failed'
}
