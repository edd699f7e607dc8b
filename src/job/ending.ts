/** How a finished job ended, in the terms of interfaces that tell more endings apart than SPEC §2.5. */
import type { JobError, Usage } from './job.ts'
import type { JobRecord } from './job-record.ts'

/** `incomplete`: the answer was cut at its length, or the model's content policy withheld it. */
export type Ending = 'completed' | 'incomplete' | 'cancelled' | 'failed'

/** Of a job that has finished. Also a failed one is incomplete if its answer, which had to be JSON, was cut. */
export function endingOf({ status, errorJson, usageJson }: JobRecord): Ending {
  const error: JobError | null = errorJson === null ? null : JSON.parse(errorJson)
  if (error?.code === 'cancelled') return 'cancelled'
  if (error?.code === 'content_policy_violation') return 'incomplete'
  if (status === 'completed' || error?.code === 'validation_error') {
    const usage: Usage | null = usageJson === null ? null : JSON.parse(usageJson)
    if (usage?.finish_reason === 'length') return 'incomplete'
  }
  return status === 'completed' ? 'completed' : 'failed'
}
