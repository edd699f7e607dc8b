/** Schemas of the responses of `GET /api/v1/messages`: a page of a list, or the jobs with the given IDs. */
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
      description: 'When the job finished (Unix seconds); null until then.',
    }),
    model: Type.String({ description: 'The requested model.' }),
    error_code: Type.Union([Type.String(), Type.Null()], {
      description: 'The `code` of the error; null unless the job has failed.',
    }),
    callback: Type.Union([Type.Enum([...CALLBACK_STATES]), Type.Null()], {
      description: 'The state of the callback; null if the job has no callback, and until the job finishes.',
    }),
  },
  { title: 'JobSummary', description: 'A job without its contents.' },
)

const jobPage = Type.Object(
  {
    jobs: Type.Array(jobSummary, { description: 'Newest first.' }),
    next: Type.Union([Type.String(), Type.Null()], {
      description:
        'Pass this value as `after` to get the next page. Null only on the last page, however short a page is.',
    }),
  },
  { title: 'JobPage', description: 'The response without `ids`.' },
)

const jobsById = Type.Object(
  {
    jobs: Type.Array(job, { description: 'In the order of the IDs.' }),
    not_found: Type.Array(jobId, {
      description: 'IDs of jobs that do not exist, have expired, or belong to another account.',
    }),
    more: Type.Array(jobId, {
      description: 'IDs of jobs that did not fit into the response; request them again.',
    }),
  },
  { title: 'JobsById', description: 'The response with `ids`.' },
)

export const jobsAnswer = success(
  'A page of the list, or the jobs with the requested IDs.',
  Type.Union([jobPage, jobsById]),
  {
    headers: { ...RATE_HEADERS, ...WAIT_AFTER },
    examples: exampleResponses.jobs,
  },
)
