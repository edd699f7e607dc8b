/** Whose trouble a failed call is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type FailureFacts, failureKind } from './failure-kinds.ts'
import type { FailureKind } from './model-server.ts'

const failure = (fields: Partial<FailureFacts>): FailureFacts => ({
  status: null,
  message: 'It failed.',
  code: null,
  connection: null,
  timedOut: false,
  retryable: true,
  retryAfterMs: null,
  ...fields,
})

const QUOTA = 'You exceeded your current quota, please check your plan and billing details.'
const TOO_LARGE =
  'Request too large for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Requested 43501.'
const LOADING = 'Loading model'
const GOOGLES_KEY = 'API key not valid. Please pass a valid API key.'
const XAIS_KEY = 'Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai.'
const LITELLM =
  'litellm.InternalServerError: InternalServerError: OpenAIException - Connection error.. Received'
const LITELLMS_MODEL = '/chat/completions: Invalid model name passed in model=a. Call `/v1/models` to view'
const ARREARS = 'Access denied, please make sure your account is in good standing.'
const USAGE_LIMIT = 'You have reached your specified API usage limits. You will regain access on 2027-01-01.'
const NO_CREDIT = 'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.'

const CASES: readonly [FailureKind, Partial<FailureFacts>][] = [
  ['unreachable', { code: 'ECONNREFUSED', connection: 'connection' }],
  ['unreachable', { code: 'UND_ERR_CONNECT_TIMEOUT', connection: 'connection' }],
  ['unreachable', { code: 'EADDRNOTAVAIL', connection: 'connection' }],
  ['unreachable', { code: 'EMFILE', connection: 'connection' }],
  ['unreachable', { code: 'EACCES', connection: 'connection' }],
  ['unreachable', { code: 'ENOTFOUND', connection: 'dns' }],
  ['unreachable', { code: 'SELF_SIGNED_CERT_IN_CHAIN', connection: 'tls' }],
  ['broken', { code: 'ECONNRESET', connection: 'connection' }],
  ['broken', { code: 'UND_ERR_SOCKET', connection: 'connection' }],
  [
    'broken',
    { status: 200, message: 'The model server closed the connection in the middle of its response.' },
  ],
  ['broken', { status: 408 }],
  ['broken', { status: 409 }],
  ['broken', { status: 502 }],
  ['broken', { status: 504 }],
  ['broken', { status: 522 }],
  ['broken', { status: 526 }],
  ['broken', { status: 530 }],
  ['broken', { status: 500, message: 'fetch failed Cause: Error: connect ECONNREFUSED 127.0.0.1:8000' }],
  ['broken', { status: 500, message: LITELLM }],
  [
    'broken',
    { status: 500, message: 'litellm.APIConnectionError: Cannot connect to host 127.0.0.1:8000 ssl' },
  ],
  ['broken', { status: 500, message: 'upstream error: do request failed' }],
  ['broken', { status: 500, message: 'Post "http://a:8000/v1": dial tcp: connect: connection refused' }],
  ['overloaded', { status: 429 }],
  ['overloaded', { status: 503, message: LOADING }],
  ['overloaded', { status: 529 }],
  ['overloaded', { status: 498 }],
  ['overloaded', { status: 200, code: '429' }],
  ['misconfigured', { status: 401, retryable: false }],
  ['misconfigured', { status: 200, code: '401', retryable: false }],
  ['misconfigured', { status: 402, retryable: false }],
  ['misconfigured', { status: 403, retryable: false }],
  ['misconfigured', { status: 404, retryable: false }],
  ['misconfigured', { status: 302, retryable: false }],
  ['misconfigured', { status: 308, retryable: false }],
  ['misconfigured', { status: 405, retryable: false }],
  ['final', { status: 303, retryable: false }],
  ['misconfigured', { status: 429, code: 'insufficient_quota' }],
  ['misconfigured', { status: 429, message: QUOTA }],
  ['misconfigured', { status: 429, message: `${QUOTA} (insufficient_quota)`, retryAfterMs: 1000 }],
  ['overloaded', { status: 429, message: QUOTA, retryAfterMs: 34_000 }],
  ['misconfigured', { status: 400, retryable: false, message: GOOGLES_KEY }],
  ['misconfigured', { status: 400, retryable: false, message: 'API key expired. Please renew the API key.' }],
  ['misconfigured', { status: 400, retryable: false, message: XAIS_KEY }],
  ['misconfigured', { status: 400, retryable: false, message: NO_CREDIT }],
  ['misconfigured', { status: 200, code: '400', retryable: false, message: NO_CREDIT }],
  ['misconfigured', { status: 400, retryable: false, message: 'Budget has been exceeded! Current cost: 26' }],
  ['misconfigured', { status: 400, retryable: false, message: ARREARS }],
  ['misconfigured', { status: 400, retryable: false, message: USAGE_LIMIT }],
  ['misconfigured', { status: 400, retryable: false, message: LITELLMS_MODEL }],
  ['misconfigured', { status: 400, retryable: false, message: `{'error': '${LITELLMS_MODEL}'}` }],
  ['misconfigured', { status: 400, retryable: false, message: 'a/b:free is not a valid model ID' }],
  ['final', { status: 400, retryable: false, message: `Invalid message: ${NO_CREDIT}` }],
  ['failing', { status: 424 }],
  ['failing', { status: 500 }],
  ['failing', { status: 501 }],
  ['failing', { timedOut: true }],
  ['too large', { status: 429, message: TOO_LARGE }],
  ['final', { status: 500, retryable: false }],
  ['final', { timedOut: true, retryable: false }],
  ['final', { status: 400, retryable: false }],
  ['final', { status: 413, retryable: false }],
  ['final', { status: 422, retryable: false }],
  ['final', { status: 200, retryable: false, message: 'The response is not a chat completion.' }],
  ['final', { retryable: false, message: 'No model server was called.' }],
]

for (const [kind, fields] of CASES) {
  test(`${JSON.stringify(fields)} is ${kind}`, () => {
    assert.equal(failureKind(failure(fields)), kind)
  })
}
