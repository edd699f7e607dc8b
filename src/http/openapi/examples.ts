/** Defines the examples in the OpenAPI documents. The requests are valid, and the responses have the documented shape. */
import type { BatchElement, SingleCreate } from '../../job/request.ts'

export const EXAMPLE_JOB_ID = '019a5d3e-8f43-7000-9a1c-2f54b7a1c0de'
const CREATED_AT = 1795232758

const text: SingleCreate = {
  model: 'gpt-auto',
  response_format: { format: 'text' },
  messages: [{ role: 'user', content: 'Hello, Parley!' }],
}

const json: SingleCreate = {
  model: 'gpt-5-mini',
  message_cache_ttl: 600,
  response_format: {
    format: 'json',
    schema: {
      type: 'object',
      properties: { river: { type: 'string' }, km: { type: 'number' } },
      required: ['river', 'km'],
      additionalProperties: false,
    },
  },
  messages: [
    { role: 'system', content: 'Answer with rivers of Asia only.' },
    { role: 'user', content: 'Name a river and its length.' },
  ],
}

const withCallback: BatchElement = {
  ...json,
  callback: {
    callback_url: 'https://app.example.com/hooks/parley',
    callback_headers: { 'x-team': 'maps' },
    callback_payload: { order: 7 },
  },
}

export const exampleBodies = {
  singles: [text, { ...json, timeout: 60 }],
  batches: [[text, withCallback]],
} as const

const success = (message: string, data: object) => ({ success: true, message, data })

const completed = success('The job is completed.', {
  status: 'completed',
  job_id: EXAMPLE_JOB_ID,
  created_at: CREATED_AT,
  result: { response_content: { river: 'Lena', km: 4294 } },
  error: null,
})

const failed = success('The job has failed.', {
  status: 'failed',
  job_id: EXAMPLE_JOB_ID,
  created_at: CREATED_AT,
  result: null,
  error: { code: 'content_policy_violation', message: 'The model refused to answer.' },
})

const assigned = success('The job is being processed.', {
  status: 'assigned',
  job_id: EXAMPLE_JOB_ID,
  created_at: CREATED_AT,
  result: null,
  error: null,
})

export const exampleCallbacks = [
  { ...completed.data, callback_payload: { order: 7 } },
  { ...failed.data, callback_payload: {} },
]

const summary = {
  status: 'completed',
  job_id: EXAMPLE_JOB_ID,
  created_at: CREATED_AT,
  ended_at: CREATED_AT + 2,
  model: 'gpt-5-mini',
  error_code: null,
  callback: 'delivered',
}

export const exampleResponses = {
  ended: [completed, failed],
  read: [completed, failed, assigned],
  cancelled: [
    success('The job was cancelled.', {
      ...failed.data,
      error: { code: 'cancelled', message: 'The caller cancelled the job.', cancelled_by: 'caller' },
    }),
  ],
  deleted: [success('The job was deleted.', { job_id: EXAMPLE_JOB_ID, deleted: true })],
  jobs: [
    success('1 job.', { jobs: [summary], next: null }),
    success('1 of 2 jobs have finished.', {
      jobs: [completed.data],
      not_found: ['019a5d3e-8f43-7001-9a1c-2f54b7a1c0de'],
      more: [],
    }),
  ],
  timedOut: [
    success('The job was created and is still being processed. Read it by its ID.', {
      status: 'timeout',
      job_id: EXAMPLE_JOB_ID,
    }),
  ],
  jobIds: [
    success('2 jobs are enqueued.', { job_ids: [EXAMPLE_JOB_ID, '019a5d3e-8f43-7001-9a1c-2f54b7a1c0de'] }),
  ],
} as const
