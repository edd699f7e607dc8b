/** POST /v1/chat/completions: creates a job, and holds the request until the job has finished or the server must respond. */
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../http/envelope.ts'
import type { JobRecord } from '../job/job-record.ts'
import { TEXT_JSON } from '../job/response-format.ts'
import { answerOf, type TextAnswer, tokensOf } from './answers.ts'
import { sendV1Error } from './errors.ts'
import type { HeldCreates } from './held-creates.ts'
import { chatBody, chatCompletion, DOCUMENTED, errorResponses, UNCHECKED } from './openapi.ts'

export interface ChatRoute {
  readonly creates: HeldCreates
  readonly bodyBytes: number
}

export const CHAT_FIELD_NAMES = { 'response_format.schema': 'response_format.json_schema.schema' } as const

export function chatRoute(app: FastifyInstance, { creates, bodyBytes }: ChatRoute): void {
  app.post(
    '/v1/chat/completions',
    {
      bodyLimit: bodyBytes,
      config: { bearer: true, translation: 'chat' },
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
      const element = creates.elementOf(request)
      const { model } = element
      const isJson = element.responseFormatJson !== TEXT_JSON
      const held = await creates.hold(request, reply, { element, fieldNames: CHAT_FIELD_NAMES })
      if (held.kind === 'error') return sendV1Error(reply, held.error)
      const answer = answerOf(held.record, isJson)
      if (answer.kind === 'failed') return sendV1Error(reply, answer.error)
      const json = completionJson(held.record, model, answer)
      if (held.cacheHit) reply.header('x-cache', 'hit')
      return reply.header('content-type', JSON_TYPE).send(json)
    },
  )
}

/** Assembles the response as text, because the answer already is JSON text. */
export function completionJson(record: JobRecord, model: string, { textJson, finish }: TextAnswer): string {
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
