/** The callback (SPEC §6) as a webhook of the OpenAPI document: the request that a receiver gets. */
import Type from 'typebox'
import type { DeclaredOperation } from './declared-operations.ts'
import { EXAMPLE_JOB_ID, exampleCallbacks } from './examples.ts'
import { callbackEvent } from './job-schemas.ts'

const SIGNED = 'docs/callbacks.md explains how to verify it.'

const headers = Type.Object({
  'webhook-id': Type.String({
    format: 'uuid',
    description: 'The job ID. It is the same in each attempt.',
    examples: [EXAMPLE_JOB_ID],
  }),
  'webhook-timestamp': Type.String({
    pattern: '^[0-9]+$',
    description: 'When this attempt was signed (Unix seconds).',
    examples: ['1795232760'],
  }),
  'webhook-signature': Type.String({
    description: `One or more signatures according to Standard Webhooks, separated by spaces. ${SIGNED}`,
    examples: ['v1,Jm9yIGV4YW1wbGUgb25seSwgbm90IGEgc2lnbmF0dXJl'],
  }),
})

const received = (description: string) => ({ description, content: {} })

export const jobEndedWebhook: DeclaredOperation = {
  method: 'post',
  path: '',
  schema: {
    operationId: 'jobEnded',
    summary: 'A job with a callback has finished',
    description:
      'Sent to `callback_url` with your `callback_headers` when the job finishes, and retried until you respond with a 2xx status. Expect duplicates.',
    tags: ['Jobs'],
    security: [],
    headers,
    body: { ...callbackEvent, examples: exampleCallbacks },
    response: {
      '2XX': received('The callback is delivered. Parley does not read the response body.'),
      410: received('The receiver is gone. The callback fails permanently.'),
      '4XX': received('The callback is retried later. After 429, not before the time in your `Retry-After`.'),
      '5XX': received(
        'The callback is retried later. After 502, 503 and 504, not before the time in your `Retry-After`.',
      ),
    },
  },
}
