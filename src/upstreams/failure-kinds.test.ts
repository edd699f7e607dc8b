/** Tests who is responsible for a failed call. */
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
const TOO_LARGE =
  'Request too large for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Requested 43501.'
const NO_CREDIT = 'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.'

/** With a 429, these messages show that the operator's account has no credit left. */
const OUT_OF_CREDIT: readonly string[] = [
  QUOTA,
  'Your team 1 has either used all available credits or reached its monthly spending limit.',
  'Insufficient balance or no resource package. Please recharge.',
  'Your account org-1 is suspended due to insufficient balance, please recharge your account.',
]
/** Gateways send these messages with a 500 if they did not reach the server behind them. */
const OF_SERVER_BEHIND: readonly string[] = [
  'fetch failed Cause: Error: connect ECONNREFUSED 127.0.0.1:8000',
  'litellm.InternalServerError: InternalServerError: OpenAIException - Connection error.. Received',
  'litellm.APIConnectionError: Cannot connect to host 127.0.0.1:8000 ssl',
  'upstream error: do request failed',
  'Post "http://a:8000/v1": dial tcp: connect: connection refused',
]

/** Servers and gateways send these messages with a 400 about problems that only their operator can fix. */
const OF_OPERATOR: readonly string[] = [
  NO_CREDIT,
  'API key not valid. Please pass a valid API key.',
  'API key expired. Please renew the API key.',
  'Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai.',
  // LM Studio sends these two.
  'No models loaded. Please load a model in the developer page or use the `lms load` command.',
  'Failed to load model "x". Error: Operation canceled.',
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
  // LiteLLM forwards the same messages.
  'litellm.BadRequestError: AnthropicException - {"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}',
  'litellm.BadRequestError: BadRequestError: GroqException - The model `a` has been decommissioned and is no longer supported.',
  'litellm.BadRequestError: OpenrouterException - {"error":{"message":"a/b is not a valid model ID","code":400}}. Received Model Group=c',
  "litellm.BadRequestError: DeepseekException - Error code: 400 - {'error': {'message': 'Model Not Exist', 'type': 'a'}}",
  'Bad Request: Invalid state',
  'The endpoint is paused, ask a maintainer to restart it',
  'The dedicated endpoint for mistralai/Mixtral-8x22B is not running.',
  "The requested model 'a/b' is not supported by any provider you have enabled.",
]
/** These messages concern only the job: the budget is that of its `user`, and the others only quote the operator's messages. */
const OF_JOB: readonly string[] = [
  `Invalid message: ${NO_CREDIT}`,
  'Invalid request: x is not a valid model ID',
  'litellm.BadRequestError: OpenAIException - {"error":{"message":"Invalid content: \\"Model Not Exist\\""}}',
  'ExceededBudget: End User=u1 over budget. Spend=0.02, Budget=0.01',
  'Invalid value: "Budget has been exceeded! Current cost: 1".',
]

type Facts = Partial<FailureFacts>
const of = (kind: FailureKind, ...all: readonly Facts[]) => all.map((facts) => [kind, facts] as const)
/** Returns the facts of a response that is not retryable. */
const wrong = (status: number, more: Facts = {}): Facts => ({ status, retryable: false, ...more })
const wrong400 = (message: string) => wrong(400, { message })
const unconnected = (code: string, connection: FailureFacts['connection'] = 'connection'): Facts => ({
  code,
  connection,
})

const CASES: readonly (readonly [FailureKind, Facts])[] = [
  ...of(
    'unreachable',
    ...['ECONNREFUSED', 'UND_ERR_CONNECT_TIMEOUT', 'EADDRNOTAVAIL', 'EMFILE', 'EACCES'].map((code) =>
      unconnected(code),
    ),
    unconnected('ENOTFOUND', 'dns'),
    unconnected('SELF_SIGNED_CERT_IN_CHAIN', 'tls'),
  ),
  ...of(
    'broken',
    unconnected('ECONNRESET'),
    unconnected('UND_ERR_SOCKET'),
    { status: 200, message: 'The model server closed the connection in the middle of its response.' },
    ...[408, 409, 502, 504, 522, 526, 530].map((status) => ({ status })),
    ...OF_SERVER_BEHIND.map((message) => ({ status: 500, message })),
  ),
  ...of(
    'overloaded',
    ...[429, 503, 529, 498].map((status) => ({ status })),
    { status: 503, message: 'Loading model' },
    { status: 200, code: '429' },
    { status: 429, message: QUOTA, retryAfterMs: 34_000 },
  ),
  ...of(
    'misconfigured',
    ...[401, 402, 403, 404, 410, 412, 301, 302, 308, 405, 407].map((status) => wrong(status)),
    wrong(200, { code: '401' }),
    wrong(200, { code: '400', message: NO_CREDIT }),
    wrong(404, { message: 'No endpoints found for x/y.' }),
    ...OF_OPERATOR.map(wrong400),
    { status: 429, code: 'insufficient_quota' },
    // Z.ai sends this code with a Chinese message.
    { status: 429, code: '1113' },
    { status: 429, message: `${QUOTA} (insufficient_quota)`, retryAfterMs: 1000 },
    ...OUT_OF_CREDIT.map((message) => ({ status: 429, message })),
  ),
  ...of(
    'failing',
    ...[424, 500, 501].map((status) => ({ status })),
    wrong400('The model has crashed without additional information. (Exit code: null)'),
    { status: 200, message: NO_CHOICES },
    { status: 200, message: NO_TEXT },
    { timedOut: true },
  ),
  ...of('too large', { status: 429, message: TOO_LARGE }),
  ...of(
    'final',
    ...[400, 413, 422, 500].map((status) => wrong(status)),
    ...OF_JOB.map(wrong400),
    wrong(200, { message: NO_TEXT }),
    wrong(200, { message: 'The response is not a chat completion.' }),
    wrong(404, { message: 'No endpoints found that can handle the requested parameters.' }),
    { timedOut: true, retryable: false },
    { retryable: false, message: 'No model server was called.' },
  ),
]

for (const [kind, facts] of CASES) {
  test(`${JSON.stringify(facts)} is ${kind}`, () => {
    assert.equal(failureKind(failure(facts)), kind)
  })
}
