/**
 * Servers that behave like Ollama and LM Studio on a desktop: no API key, models that come and go, JSON in their own
 * formats.
 */
import {
  type ChatRequest,
  chatCompletion,
  isModelList,
  type Reply,
  reply,
  type Script,
} from '../model-server.ts'
import { Slots, type SlotsOptions } from './slots.ts'
import { answerTo, json, messagesOf, tokensOf, usualAnswer } from './usual-answer.ts'

export interface OllamaOptions extends SlotsOptions {
  /** Names with tags, as `ollama list` shows them; `llama3.2:latest` unless given. */
  readonly models?: readonly string[]
  /** `num_ctx`; a token of this server is four bytes. 4,096 unless given. */
  readonly contextTokens?: number
  /** `OLLAMA_MAX_QUEUE`: requests beyond it get 503. 512 unless given. */
  readonly maxQueue?: number
  readonly answer?: (request: ChatRequest) => string
}

/**
 * Ollama: a model without a tag is `:latest`; roles that the template does not know are left out; if a conversation exceeds
 * the context, the oldest messages except the system message are silently left out; unknown paths get plain text. Errors are
 * objects inside `error`, with a `code` of null.
 */
export class Ollama {
  /** What reached the model: one line per message. */
  readonly prompts: string[] = []
  readonly slots: Slots
  readonly #options: OllamaOptions

  constructor(options: OllamaOptions = {}) {
    this.#options = options
    this.slots = new Slots(options)
  }

  readonly script: Script = (request) => {
    const { models = ['llama3.2:latest'], maxQueue = 512, answer = usualAnswer } = this.#options
    if (request.path === '/v1/models') return reply.models(...models)
    if (request.path !== '/v1/chat/completions') return reply.status(404, { body: '404 page not found' })
    const { body } = request
    if (!Array.isArray(body.messages) || body.messages.length === 0) {
      return ollamaError(400, "[] is too short - 'messages'")
    }
    if (!models.includes(body.model) && !models.includes(`${body.model}:latest`)) {
      return ollamaError(404, `model '${body.model}' not found`)
    }
    if (this.slots.queued >= maxQueue) {
      return ollamaError(503, 'server busy, please try again.  maximum pending requests exceeded')
    }
    const prompt = this.#prompt(body)
    this.prompts.push(prompt)
    return this.slots.hold(answerTo(body, prompt, answer(body), { system_fingerprint: 'fp_ollama' }))
  }

  #prompt(request: ChatRequest): string {
    const { contextTokens = 4_096 } = this.#options
    const known = messagesOf(request).filter(({ role }) => ['system', 'user', 'assistant'].includes(role))
    const kept = [...known]
    const text = () => kept.map(({ role, content }) => `${role}: ${content}`).join('\n')
    while (tokensOf(text()) > contextTokens) {
      const oldest = kept.findIndex(({ role }, index) => role !== 'system' && index < kept.length - 1)
      if (oldest === -1) break
      kept.splice(oldest, 1)
    }
    return text()
  }
}

/**
 * LM Studio: an unknown path gets **200** with an error; errors are a string in `error`, but an object for the model;
 * `json_object` is rejected; a loaded model answers for any requested name.
 */
export function lmStudio({
  models = ['qwen2.5-7b-instruct'],
}: {
  readonly models?: readonly string[]
} = {}): Script {
  return (request) => {
    if (isModelList(request) && request.path.startsWith('/v1/')) return reply.models(...models)
    if (request.path !== '/v1/chat/completions') {
      const error = `Unexpected endpoint or method. (${request.method} ${request.path})`
      return json(200, { error })
    }
    const { body } = request
    if (!Array.isArray(body.messages)) return json(400, { error: "'messages' field is required" })
    if (body.response_format?.type === 'json_object') {
      return json(400, { error: "'response_format.type' must be 'json_schema' or 'text'" })
    }
    if (models.length === 0) {
      const message =
        'No models loaded. Please load a model in the developer page or use the `lms load` command.'
      const error = { message, type: 'invalid_request_error', param: 'model', code: 'model_not_found' }
      return json(404, { error })
    }
    return json(200, { ...chatCompletion(body, { content: usualAnswer(body) }), stats: {} })
  }
}

function ollamaError(status: number, message: string): Reply {
  const types: { readonly [status: number]: string } = {
    400: 'invalid_request_error',
    404: 'not_found_error',
  }
  return json(status, {
    error: { message, type: types[status] ?? 'api_error', param: null, code: null },
  })
}
