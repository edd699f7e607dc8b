/** Schemas of the responses of cancelling and deleting a job. */
import Type from 'typebox'
import { exampleResponses } from './examples.ts'
import { failedJob, jobId } from './job-schemas.ts'
import { success } from './schemas.ts'

export const cancelledAnswer = success(
  'The job is cancelled, by this request or an earlier one.',
  failedJob,
  {
    examples: exampleResponses.cancelled,
  },
)

const deletedJob = Type.Object({ job_id: jobId, deleted: Type.Literal(true) }, { title: 'DeletedJob' })

export const deletedAnswer = success('The job was deleted.', deletedJob, {
  examples: exampleResponses.deleted,
})
