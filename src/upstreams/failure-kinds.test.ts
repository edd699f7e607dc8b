/** Who is responsible for a failed call. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type FailureFacts, failureKind, NO_CHOICES, NO_TEXT } from './failure-kinds.ts'
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
const XAIS_CREDIT = 'Your team 1 has either used all available credits or reached its monthly spending limit.'
const MOONSHOTS_CREDIT =
  'Your account org-1 is suspended due to insufficient balance, please recharge your account.'
const TOO_LARGE =
  'Request too large for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Requested 43501.'
const LOADING = 'Loading model'
const GOOGLES_KEY = 'API key not valid. Please pass a valid API key.'
const XAIS_KEY = 'Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai.'
const LITELLM =
  'litellm.InternalServerError: InternalServerError: OpenAIException - Connection error.. Received'
const NO_CREDIT = 'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.'
const NO_PROVIDER = 'No endpoints found that can handle the requested parameters.'

// A message of LM Studio.
const NOT_LOADED =
  'No models loaded. Please load a model in the developer page or use the `lms load` command.'
const CRASHED = 'The model has crashed without additional information. (Exit code: null)'

/** Messages that servers and gateways send with a 400 about problems that only their operator can fix. */
const OF_OPERATOR: readonly string[] = [
  'You have reached your specified API usage limits. You will regain access on 2026-01-01 at 00:00 UTC.',
  'This organization has been disabled.',
  'Organization has been restricted. Please reach out to support if you believe this was in error.',
  'Budget has been exceeded! Current cost: 0.1012, Max budget: 0.1',
  'ExceededBudget: User=default_user_id over budget. Spend=0.02, Budget=0.01',
  'Authentication Error - Expired Key. Key Expiry time 2026-01-01 and current time 2026-01-02',
  '/chat/completions: Invalid model name passed in model=gpt-5. Call `/v1/models` to view available models for your key.',
  "400: {'error': '/chat/completions: Invalid model name passed in model=gpt-5'}",
  'Access denied, please make sure your account is in good standing.',
  'User location is not supported for the API use.',
  'x-ai/grok-2:free is not a valid model ID',
  'Model Not Exist',
  'Invalid model: mistral-tiny-2',
  'The model `llama3-8b-8192` has been decommissioned and is no longer supported.',
  'Unable to access non-serverless model mistralai/Mixtral-8x7B. Please visit https://api.together.ai/models',
  // The same messages behind LiteLLM.
  'litellm.BadRequestError: AnthropicException - {"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}',
  'litellm.BadRequestError: BadRequestError: GroqException - The model `a` has been decommissioned and is no longer supported.',
  'litellm.BadRequestError: OpenrouterException - {"error":{"message":"a/b is not a valid model ID","code":400}}. Received Model Group=c',
  "litellm.BadRequestError: DeepseekException - Error code: 400 - {'error': {'message': 'Model Not Exist', 'type': 'a'}}",
  'Bad Request: Invalid state',
  'The endpoint is paused, ask a maintainer to restart it',
  'The dedicated endpoint for mistralai/Mixtral-8x22B is not running.',
  "The requested model 'a/b' is not supported by any provider you have enabled.",
]
/** Messages that concern only the job: the budget is that of its `user`, and the others only quote the operator's messages. */
const OF_JOB: readonly string[] = [
  'Invalid request: x is not a valid model ID',
  'litellm.BadRequestError: OpenAIException - {"error":{"message":"Invalid content: \\"Model Not Exist\\""}}',
  'ExceededBudget: End User=u1 over budget. Spend=0.02, Budget=0.01',
  'Invalid value: "Budget has been exceeded! Current cost: 1".',
]

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
  ['misconfigured', { status: 410, retryable: false }],
  ['misconfigured', { status: 412, retryable: false }],
  ['misconfigured', { status: 301, retryable: false }],
  ['misconfigured', { status: 302, retryable: false }],
  ['misconfigured', { status: 308, retryable: false }],
  ['misconfigured', { status: 405, retryable: false }],
  ['misconfigured', { status: 407, retryable: false }],
  ['misconfigured', { status: 400, retryable: false, message: NOT_LOADED }],
  [
    'misconfigured',
    { status: 400, retryable: false, message: 'Failed to load model "x". Error: Operation canceled.' },
  ],
  ...OF_OPERATOR.map(
    (message) =>
      ['misconfigured', { status: 400, retryable: false, message }] as [FailureKind, Partial<FailureFacts>],
  ),
  ...OF_JOB.map(
    (message) =>
      ['final', { status: 400, retryable: false, message }] as [FailureKind, Partial<FailureFacts>],
  ),
  ['misconfigured', { status: 404, retryable: false, message: 'No endpoints found for x/y.' }],
  ['misconfigured', { status: 429, code: 'insufficient_quota' }],
  ['misconfigured', { status: 429, message: QUOTA }],
  ['misconfigured', { status: 429, message: `${QUOTA} (insufficient_quota)`, retryAfterMs: 1000 }],
  ['misconfigured', { status: 429, message: XAIS_CREDIT }],
  [
    'misconfigured',
    { status: 429, message: 'Insufficient balance or no resource package. Please recharge.' },
  ],
  // Z.ai's code for this, whose message is Chinese.
  ['misconfigured', { status: 429, code: '1113' }],
  ['misconfigured', { status: 429, code: 'exceeded_current_quota_error', message: MOONSHOTS_CREDIT }],
  ['overloaded', { status: 429, message: QUOTA, retryAfterMs: 34_000 }],
  ['misconfigured', { status: 400, retryable: false, message: GOOGLES_KEY }],
  ['misconfigured', { status: 400, retryable: false, message: 'API key expired. Please renew the API key.' }],
  ['misconfigured', { status: 400, retryable: false, message: XAIS_KEY }],
  ['misconfigured', { status: 400, retryable: false, message: NO_CREDIT }],
  ['misconfigured', { status: 200, code: '400', retryable: false, message: NO_CREDIT }],
  ['final', { status: 400, retryable: false, message: `Invalid message: ${NO_CREDIT}` }],
  ['failing', { status: 424 }],
  ['failing', { status: 500 }],
  ['failing', { status: 400, retryable: false, message: CRASHED }],
  ['failing', { status: 501 }],
  ['failing', { status: 200, message: NO_CHOICES }],
  ['failing', { status: 200, message: NO_TEXT }],
  ['final', { status: 200, retryable: false, message: NO_TEXT }],
  ['failing', { timedOut: true }],
  ['too large', { status: 429, message: TOO_LARGE }],
  ['final', { status: 500, retryable: false }],
  ['final', { timedOut: true, retryable: false }],
  ['final', { status: 400, retryable: false }],
  ['final', { status: 404, retryable: false, message: NO_PROVIDER }],
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
