/** Schemas of what `GET /api/v1/messages` returns: a page of a list, or the jobs whose ids were given. */
import Type from 'typebox'
import { CALLBACK_STATES } from '../../store/callback-store.ts'
import { exampleResponses } from './examples.ts'
import { job, jobId, jobStatus } from './job-schemas.ts'
import { RATE_HEADERS, success, WAIT_AFTER } from './schemas.ts'

const jobSummary = Type.Object(
  {
    status: jobStatus,
    job_id: jobId,
    created_at: Type.Integer({ description: 'When the job was accepted (Unix seconds).' }),
    ended_at: Type.Union([Type.Integer(), Type.Null()], {
      description: 'When the job ended (Unix seconds); null until then.',
    }),
    model: Type.String({ description: 'The model that was asked for.' }),
    error_code: Type.Union([Type.String(), Type.Null()], {
      description: 'The `code` of the error; null unless the job has failed.',
    }),
    callback: Type.Union([Type.Enum([...CALLBACK_STATES]), Type.Null()], {
      description: 'The state of the callback; null if there is none, and until the job has ended.',
    }),
  },
  { title: 'JobSummary', description: 'A job without its contents.' },
)

const jobPage = Type.Object(
  {
    jobs: Type.Array(jobSummary, { description: 'Newest first.' }),
    next: Type.Union([Type.String(), Type.Null()], {
      description:
        'Pass this as `after` to get the next page. Null only at the end, however short a page is.',
    }),
  },
  { title: 'JobPage', description: 'Without `ids`.' },
)

const jobsById = Type.Object(
  {
    jobs: Type.Array(job, { description: 'In the order of the ids.' }),
    not_found: Type.Array(jobId, {
      description: 'Ids of jobs that do not exist, have expired, or belong to another account.',
    }),
    more: Type.Array(jobId, {
      description: 'Ids of jobs that did not fit into the response; ask for them again.',
    }),
  },
  { title: 'JobsById', description: 'With `ids`.' },
)

export const jobsAnswer = success(
  'A page of the list, or the jobs of the ids.',
  Type.Union([jobPage, jobsById]),
  {
    headers: { ...RATE_HEADERS, ...WAIT_AFTER },
    examples: exampleResponses.jobs,
  },
)
