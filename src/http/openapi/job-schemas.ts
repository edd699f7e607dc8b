/** Defines the schemas of a job as its account reads it (SPEC §2.5). */
import { INCLUDES } from '../../job/job-record.ts'
import { type Schema, Type } from '../../typed-schema.ts'
import { EXAMPLE_JOB_ID } from './examples.ts'

export const jobId = Type.String({
  format: 'uuid',
  description: 'The job ID, a version 7 UUID.',
})

/** Any text is allowed, because a text that is not a job ID gets the same 404 as an unknown job. */
export const jobIdParam = Type.Object({
  jobId: Type.String({
    description: 'The job ID. It is not case-sensitive.',
    examples: [EXAMPLE_JOB_ID],
  }),
})

/** Unites schemas that have a title and differ in the constant `status`. */
function byStatus(title: string, description: string, schemas: Readonly<Record<string, Schema>>): Schema {
  const mapping = Object.entries(schemas).map(([status, schema]) => [
    status,
    `#/components/schemas/${'title' in schema ? schema.title : ''}`,
  ])
  return {
    title,
    description,
    oneOf: Object.values(schemas),
    discriminator: { propertyName: 'status', mapping: Object.fromEntries(mapping) },
  }
}

const createdAt = Type.Integer({ description: 'When the job was accepted (Unix seconds).' })
const none = Type.Null()

const jobError = Type.Object(
  {
    code: Type.Enum(
      [
        'timeout',
        'deadline_exceeded',
        'content_policy_violation',
        'model_error',
        'validation_error',
        'answer_not_checked',
        'cancelled',
        'internal_error',
      ],
      { title: 'JobErrorCode', description: 'A code for programs to act on.' },
    ),
    message: Type.String({ description: 'A message for people.' }),
    upstream_status: Type.Optional(
      Type.Integer({ description: 'The HTTP status that the model server responded with, if any.' }),
    ),
    upstream_message: Type.Optional(
      Type.String({ description: 'The error message of the model server, truncated.' }),
    ),
    cancelled_by: Type.Optional(
      Type.Enum(['caller', 'operator'], {
        description: 'With `cancelled`: who cancelled the job. Absent for jobs that version 0.2.0 cancelled.',
      }),
    ),
    errors: Type.Optional(
      Type.Array(Type.String(), {
        description: 'With `validation_error`: how the answer violates the schema.',
      }),
    ),
    raw_text: Type.Optional(
      Type.String({ description: 'With `validation_error`: the answer of the model, truncated.' }),
    ),
  },
  { title: 'JobError', description: 'Why the job failed.' },
)

const jobResult = Type.Object(
  {
    response_content: Type.Unknown({
      description: 'A string for format `text`; any JSON value for format `json`.',
    }),
  },
  { title: 'JobResult', description: "The model's answer." },
)

/** `convertQuery` splits the parameter at commas. */
export const includeParameter = Type.Optional(
  Type.Array(Type.Enum([...INCLUDES]), {
    description: 'What to add to each job, separated by commas.',
    examples: [['usage']],
  }),
)

export const usage = Type.Union(
  [
    Type.Object(
      {
        model: Type.Union([Type.String(), Type.Null()], {
          description:
            'The model that answered, as its server names it; null without an answer, or if it was cached.',
        }),
        input_tokens: Type.Integer({ description: 'As the model server counted them, over all calls.' }),
        cached_input_tokens: Type.Integer({
          description: 'The input tokens that the model server had cached.',
        }),
        output_tokens: Type.Integer(),
        cost: Type.Optional(
          Type.Integer({
            description:
              'What the calls cost, in millionths of the currency. Absent if the model has no price.',
          }),
        ),
        calls: Type.Integer({ description: 'Calls to model servers, including failed ones.' }),
        cache_hit: Type.Boolean({
          description: 'Whether the answer is a cached response of an identical job.',
        }),
        repaired: Type.Boolean({ description: 'Whether the model corrected an answer in the wrong format.' }),
        finish_reason: Type.Union([Type.Enum(['stop', 'length']), Type.Null()], {
          description: '`length` if the answer was cut at a length limit; null without an answer.',
        }),
      },
      { title: 'JobUsage' },
    ),
    Type.Null(),
  ],
  { description: 'What the job used; null until it has finished. Only with `include=usage`.' },
)

export const metadata = Type.Record(Type.String(), {
  description: 'The `metadata` of the request; `{}` if it had none. Only with `include=metadata`.',
})

const fieldsOf = (status: string, result: Schema, error: Schema) => ({
  status: Type.Literal(status),
  job_id: jobId,
  created_at: createdAt,
  result,
  error,
  usage: Type.Optional(usage),
  metadata: Type.Optional(metadata),
})

const open = (status: string) => ({
  ...fieldsOf(status, none, none),
  waiting_for: Type.Optional(
    Type.Enum(['budget'], {
      description:
        'Only with `include=usage`: the job is queued until the monthly money cap has room for it.',
    }),
  ),
})

const completed = fieldsOf('completed', jobResult, none)
const failed = fieldsOf('failed', none, jobError)

const pendingJob = Type.Object(open('pending'), { title: 'PendingJob', description: 'The job is queued.' })
const assignedJob = Type.Object(open('assigned'), {
  title: 'AssignedJob',
  description: 'A node has started the job. A job that goes back to the queue keeps this status.',
})
const completedJob = Type.Object(completed, {
  title: 'CompletedJob',
  description: 'The job has its answer. This status is final.',
})
export const failedJob = Type.Object(failed, {
  title: 'FailedJob',
  description: 'The job failed; see its error. This status is final.',
})

export const jobStatus = Type.Enum(['pending', 'assigned', 'completed', 'failed'], {
  title: 'JobStatus',
  description: '`completed` and `failed` are final.',
})

export const job = byStatus('Job', 'A job in its current state.', {
  pending: pendingJob,
  assigned: assignedJob,
  completed: completedJob,
  failed: failedJob,
})

export const endedJob = byStatus('EndedJob', 'A finished job.', {
  completed: completedJob,
  failed: failedJob,
})

export const timedOut = Type.Object(
  { status: Type.Literal('timeout'), job_id: jobId },
  {
    title: 'TimedOut',
    description: 'The job did not finish in time. It continues; read it by its ID.',
  },
)

export const createdBatch = Type.Object(
  { job_ids: Type.Array(jobId, { description: 'One ID for each element, in order.' }) },
  { title: 'CreatedBatch' },
)

const payload = {
  callback_payload: Type.Object(
    {},
    {
      additionalProperties: true,
      description: 'The `callback_payload` of the request, unchanged, or `{}` if there was none.',
    },
  ),
}

/** SPEC §6 describes callbacks. */
export const callbackEvent = byStatus(
  'CallbackEvent',
  'A finished job, with the payload that you asked to get back.',
  {
    completed: Type.Object({ ...completed, ...payload }, { title: 'CompletedJobCallback' }),
    failed: Type.Object({ ...failed, ...payload }, { title: 'FailedJobCallback' }),
  },
)
