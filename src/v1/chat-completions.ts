/** POST /v1/chat/completions: creates a job and holds the request until it has its answer. */
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../http/envelope.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { SingleCreate } from '../job/request.ts'
import { answerOf, type TextAnswer, tokensOf } from './answers.ts'
import { invalidField, sendV1Error } from './errors.ts'
import { type FieldPolicy, is, isAnything, isEmpty, supportedFields } from './fields.ts'
import type { HeldCreates } from './held-creates.ts'
import { messagesOf } from './messages.ts'
import { chatBody, chatCompletion, DOCUMENTED, errorResponses, UNCHECKED } from './openapi.ts'
import { optionsOf } from './options.ts'
import { formatOf } from './response-format.ts'

export interface ChatRoute {
  readonly creates: HeldCreates
  readonly bodyBytes: number
}

const FIELDS: FieldPolicy = {
  supported: [
    'model',
    'messages',
    'response_format',
    'temperature',
    'top_p',
    'max_tokens',
    'max_completion_tokens',
    'stop',
    'seed',
    'presence_penalty',
    'frequency_penalty',
    'reasoning_effort',
  ],
  ignored: [
    'metadata',
    'user',
    'store',
    'service_tier',
    'safety_identifier',
    'prompt_cache_key',
    'prompt_cache_options',
    'prompt_cache_retention',
  ],
  neutral: {
    stream: is(false),
    n: is(1),
    tools: isEmpty,
    tool_choice: is('none', 'auto'),
    functions: isEmpty,
    function_call: is('none', 'auto'),
    parallel_tool_calls: isAnything,
    logprobs: is(false),
    top_logprobs: is(0),
    logit_bias: isEmpty,
    modalities: (value) => Array.isArray(value) && value.every(is('text')),
    verbosity: is('medium'),
  },
}

/** The job that the body of a request asks for. */
function jobOf(body: unknown): SingleCreate {
  const fields = supportedFields(body, FIELDS)
  const { model, messages, response_format, max_completion_tokens } = fields
  if (typeof model !== 'string') throw invalidField('model', 'must be a string')
  const lengthField = max_completion_tokens === undefined ? 'max_tokens' : 'max_completion_tokens'
  return {
    model,
    messages: messagesOf(messages, 'messages'),
    response_format: formatOf(response_format, 'response_format'),
    options: optionsOf(fields, lengthField),
  }
}

export function chatRoute(app: FastifyInstance, { creates, bodyBytes }: ChatRoute): void {
  app.post(
    '/v1/chat/completions',
    {
      bodyLimit: bodyBytes,
      config: { bearer: true },
      ...UNCHECKED,
      schema: {
        ...DOCUMENTED,
        operationId: 'createChatCompletion',
        summary: 'Create a chat completion',
        body: chatBody,
        response: { 200: chatCompletion, ...errorResponses },
      },
    },
    async (request, reply) => {
      const value = jobOf(request.body)
      const { model } = value
      const isJson = value.response_format.format === 'json'
      const schemaField = 'response_format.json_schema.schema'
      const held = await creates.hold(request, reply, { value, schemaField })
      if (held.kind === 'error') return sendV1Error(reply, held.error)
      const answer = answerOf(held.record, isJson)
      if (answer.kind === 'failed') return sendV1Error(reply, answer.error)
      const json = completionJson(held.record, model, answer)
      if (held.cacheHit) reply.header('x-cache', 'hit')
      return reply.header('content-type', JSON_TYPE).send(json)
    },
  )
}

/** As text, because the answer of the job is JSON text already. */
function completionJson(record: JobRecord, model: string, { textJson, finish }: TextAnswer): string {
  const { input, cached, output } = tokensOf(record)
  const usage = {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  }
  const created = Math.floor(record.createdAtMs / 1000)
  return `{"id":"chatcmpl-${record.id}","object":"chat.completion","created":${created},"model":${JSON.stringify(model)},"choices":[{"index":0,"message":{"role":"assistant","content":${textJson},"refusal":null},"finish_reason":"${finish}","logprobs":null}],"usage":${JSON.stringify(usage)}}`
}
