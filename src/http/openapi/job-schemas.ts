/** Schemas of a job as its account reads it (SPEC §2.5): one for each status, and their unions. */
import Type, { type TSchema } from 'typebox'
import { EXAMPLE_JOB_ID } from './examples.ts'

export const jobId = Type.String({
  format: 'uuid',
  description: 'The job identifier, a UUID of version 7.',
})

/** Any text: one that is not an identifier gets the 404 of every unknown job. */
export const jobIdParam = Type.Object({
  jobId: Type.String({
    description: 'The job identifier. Upper and lower case mean the same job.',
    examples: [EXAMPLE_JOB_ID],
  }),
})

/** A union whose schemas differ in their literal `status`; each has a title. */
export function byStatus(title: string, description: string, schemas: Readonly<Record<string, TSchema>>) {
  const mapping = Object.entries(schemas).map(([status, schema]) => [
    status,
    `#/components/schemas/${'title' in schema ? schema.title : ''}`,
  ])
  return Type.Unsafe({
    title,
    description,
    oneOf: Object.values(schemas),
    discriminator: { propertyName: 'status', mapping: Object.fromEntries(mapping) },
  })
}

const createdAt = Type.Integer({ description: 'When the job was accepted (Unix seconds).' })
const none = Type.Null()

export const jobError = Type.Object(
  {
    code: Type.Enum(
      [
        'timeout',
        'content_policy_violation',
        'model_error',
        'validation_error',
        'answer_not_checked',
        'cancelled',
        'internal_error',
      ],
      { title: 'JobErrorCode', description: 'Why the job failed, for programs.' },
    ),
    message: Type.String({ description: 'Why the job failed, for people.' }),
    upstream_status: Type.Optional(
      Type.Integer({ description: 'The HTTP status of the model server, if it responded.' }),
    ),
    upstream_message: Type.Optional(Type.String({ description: 'What the model server said, cut.' })),
    cancelled_by: Type.Optional(
      Type.Enum(['caller', 'operator'], {
        description: 'With `cancelled`: who cancelled the job. Version 0.2.0 did not record it.',
      }),
    ),
    errors: Type.Optional(
      Type.Array(Type.String(), {
        description: 'With `validation_error`: the rules of the schema that the answer broke.',
      }),
    ),
    raw_text: Type.Optional(
      Type.String({ description: 'With `validation_error`: the answer of the model, cut.' }),
    ),
  },
  { title: 'JobError', description: 'Why the job failed.' },
)

const jobResult = Type.Object(
  {
    response_content: Type.Unknown({
      description: 'A string for format `text`, any JSON value for format `json`.',
    }),
  },
  { title: 'JobResult', description: 'The answer of the model.' },
)

const open = (status: string) => ({
  status: Type.Literal(status),
  job_id: jobId,
  created_at: createdAt,
  result: none,
  error: none,
})

const completed = {
  status: Type.Literal('completed'),
  job_id: jobId,
  created_at: createdAt,
  result: jobResult,
  error: none,
}

const failed = {
  status: Type.Literal('failed'),
  job_id: jobId,
  created_at: createdAt,
  result: none,
  error: jobError,
}

const pendingJob = Type.Object(open('pending'), { title: 'PendingJob', description: 'The job is queued.' })
const assignedJob = Type.Object(open('assigned'), {
  title: 'AssignedJob',
  description: 'A node runs the job.',
})
const completedJob = Type.Object(completed, {
  title: 'CompletedJob',
  description: 'The job has its answer. Final.',
})
export const failedJob = Type.Object(failed, {
  title: 'FailedJob',
  description: 'The job has no answer. Final.',
})

export const jobStatus = Type.Enum(['pending', 'assigned', 'completed', 'failed'], {
  title: 'JobStatus',
  description: '`completed` and `failed` are final.',
})

export const job = byStatus('Job', 'A job in its present state.', {
  pending: pendingJob,
  assigned: assignedJob,
  completed: completedJob,
  failed: failedJob,
})

export const endedJob = byStatus('EndedJob', 'A job that has ended.', {
  completed: completedJob,
  failed: failedJob,
})

/** What a single create returns when its wait is over before the job is. */
export const timedOut = Type.Object(
  { status: Type.Literal('timeout'), job_id: jobId },
  { title: 'TimedOut', description: 'The wait is over, and the job is not. It goes on; read it by its id.' },
)

export const createdBatch = Type.Object(
  { job_ids: Type.Array(jobId, { description: 'One id for each element, in order.' }) },
  { title: 'CreatedBatch' },
)

const payload = {
  callback_payload: Type.Object(
    {},
    {
      additionalProperties: true,
      description: 'The `callback_payload` of the request, unchanged; `{}` if it had none.',
    },
  ),
}

/** The body of a callback (SPEC §6). */
export const callbackEvent = byStatus(
  'CallbackEvent',
  'A job that has ended, and what you gave it to return.',
  {
    completed: Type.Object({ ...completed, ...payload }, { title: 'CompletedJobCallback' }),
    failed: Type.Object({ ...failed, ...payload }, { title: 'FailedJobCallback' }),
  },
)
