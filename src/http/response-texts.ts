/** The texts of responses about jobs, in addition to the jobs themselves. */

export const STATUS_MESSAGES = {
  pending: 'The job is queued.',
  assigned: 'The job is being processed.',
  completed: 'The job is completed.',
  failed: 'The job has failed.',
} as const

export const STILL_PROCESSED = 'The job was created and is still being processed. Read it by its ID.'
export const NOT_SENT_NOW = 'The job has finished, but its result cannot be sent now. Read it by its ID.'

/** The `data` object of the response to a create that nobody waits for any longer. */
export function timedOutJson(jobId: string): string {
  return `{"status":"timeout","job_id":"${jobId}"}`
}

export function enqueuedMessage(jobs: number): string {
  return jobs === 1 ? '1 job is enqueued.' : `${jobs} jobs are enqueued.`
}
