/**
 * Answers as a well-behaved model does: with an example of the schema that the model was given, with an object for JSON, or
 * with an echo.
 */
import { makeExample, readSchema } from 'parley-json-schema'
import { type ChatRequest, chatCompletion, echoOf, type Reply, reply } from '../model-server.ts'
import type { ChatMessage } from './chat-templates.ts'

/** This ratio is approximate, for English text. */
export const BYTES_PER_TOKEN = 4

export function usualAnswer(request: ChatRequest): string {
  const format = request.response_format
  const schema = format?.type === 'json_schema' ? format.json_schema.schema : schemaInText(request)
  if (schema !== null) {
    const read = readSchema(schema)
    const example = read.ok ? makeExample(read.schema) : null
    return JSON.stringify(example === null ? null : example.value)
  }
  return format?.type === 'json_object' ? '{"answer":"an object"}' : echoOf(request)
}

/** An instruction may end with a schema on a line of its own. Returns null if there is none. */
function schemaInText(request: ChatRequest): unknown {
  const texts = messagesOf(request).map(({ content }) => content)
  const text = texts.find((each) => each.includes('JSON Schema below'))
  // The user's text may follow if the model has no system message.
  return text === undefined ? null : JSON.parse(text.slice(text.indexOf('{')).split('\n', 1)[0] ?? '')
}

/** `usage` counts the tokens of the prompt that the server built, not of the conversation that it received. */
export function answerTo(request: ChatRequest, prompt: string, content: string, more: object = {}): Reply {
  const [input, output] = [tokensOf(prompt), tokensOf(content)]
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
  return json(200, { ...chatCompletion(request, { content }), usage, ...more })
}

export function json(status: number, body: unknown): Reply {
  return reply.status(status, { body })
}

export function tokensOf(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)
}

/** Some servers read only text, so the parts of a message become one text. */
export function messagesOf({ messages }: ChatRequest): ChatMessage[] {
  return messages.map(({ role, content }) => ({ role, content: textOf(content) }))
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === 'string' ? content : ''
  return content.map((part: { text?: string }) => part.text ?? '').join('')
}
