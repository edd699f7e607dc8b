/**
 * A server that behaves like vLLM's OpenAI-compatible server: it uses the model's chat template, and what that rejects gets
 * 400; a prompt over the context gets 400; answers are generated concurrently. Its own errors are objects inside `error`
 * (flat before version 0.10); those of FastAPI below it are `{detail}`; a missing key gets `{error: "Unauthorized"}`.
 */
import { type ChatRequest, isModelList, type Received, type Reply, type Script } from '../model-server.ts'
import { type ChatTemplate, renderChat, TemplateRejection } from './chat-templates.ts'
import { answerTo, json, messagesOf, tokensOf, usualAnswer } from './usual-answer.ts'

export interface VllmOptions {
  readonly template: ChatTemplate
  /** `--served-model-name`; `tiny` if absent. */
  readonly model?: string
  /** `--api-key`; the list of models requires it, too. */
  readonly apiKey?: string
  /** `--max-model-len`; a token of this server is four bytes. Unlimited if absent. */
  readonly maxTokens?: number
  /** Errors as before version 0.10, with the fields of the error beside `object` instead of inside `error`. */
  readonly flatErrors?: boolean
  readonly answer?: (request: ChatRequest) => string
}

export class Vllm {
  readonly prompts: string[] = []
  readonly #options: VllmOptions

  constructor(options: VllmOptions) {
    this.#options = options
  }

  readonly script: Script = (request) => this.#answer(request)

  #answer(request: Received): Reply {
    const { apiKey, model = 'tiny' } = this.#options
    if (!request.path.startsWith('/v1/')) return json(404, { detail: 'Not Found' })
    if (apiKey !== undefined && request.headers.authorization !== `Bearer ${apiKey}`) {
      return json(401, { error: 'Unauthorized' })
    }
    if (isModelList(request)) {
      const data = [
        { id: model, object: 'model', created: 1_767_323_045, owned_by: 'vllm', root: model, parent: null },
      ]
      return json(200, { object: 'list', data })
    }
    if (request.path !== '/v1/chat/completions') return json(404, { detail: 'Not Found' })
    return this.#complete(request.body)
  }

  #complete(request: ChatRequest): Reply {
    const { answer = usualAnswer, maxTokens = Number.POSITIVE_INFINITY, model = 'tiny' } = this.#options
    if (!Array.isArray(request.messages)) {
      const missing =
        "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {}}]"
      return this.#reject(400, 'Bad Request', missing)
    }
    if (request.model !== model) {
      return this.#reject(404, 'NotFoundError', `The model \`${request.model}\` does not exist.`)
    }
    let prompt: string
    try {
      prompt = renderChat(this.#options.template, messagesOf(request))
    } catch (error) {
      if (!(error instanceof TemplateRejection)) throw error
      return this.#reject(400, 'BadRequestError', `${error.message} ${error.message}`)
    }
    const tokens = tokensOf(prompt)
    if (tokens > maxTokens) {
      const message =
        `This model's maximum context length is ${maxTokens} tokens. However, your request has ${tokens} input tokens. ` +
        'Please reduce the length of the input messages.'
      return this.#reject(400, 'BadRequestError', message)
    }
    this.prompts.push(prompt)
    return answerTo(request, prompt, answer(request))
  }

  #reject(code: number, type: string, message: string): Reply {
    const error = { message, type, param: null, code }
    return json(code, this.#options.flatErrors ? { object: 'error', ...error } : { error })
  }
}
