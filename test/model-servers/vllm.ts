/**
 * Behaves like vLLM's OpenAI-compatible server. It uses the model's chat template, and answers 400 to what the template
 * rejects. Answers are generated concurrently. Its own errors are objects inside `error`, those of FastAPI below it are
 * `{detail}`, and a missing key gets `{error: "Unauthorized"}`.
 */
import { type ChatRequest, isModelList, type Received, type Reply, type Script } from '../model-server.ts'
import { type ChatTemplate, renderChat, TemplateRejection } from './chat-templates.ts'
import { answerTo, json, messagesOf, usualAnswer } from './usual-answer.ts'

export interface VllmOptions {
  readonly template: ChatTemplate
  /** The list of models requires this key, too. */
  readonly apiKey: string
}

export class Vllm {
  readonly #options: VllmOptions

  constructor(options: VllmOptions) {
    this.#options = options
  }

  readonly script: Script = (request) => this.#answer(request)

  #answer(request: Received): Reply {
    if (!request.path.startsWith('/v1/')) return json(404, { detail: 'Not Found' })
    if (request.headers.authorization !== `Bearer ${this.#options.apiKey}`) {
      return json(401, { error: 'Unauthorized' })
    }
    if (isModelList(request)) {
      const model = { id: 'tiny', object: 'model', created: 1_767_323_045, owned_by: 'vllm', root: 'tiny' }
      return json(200, { object: 'list', data: [{ ...model, parent: null }] })
    }
    if (request.path !== '/v1/chat/completions') return json(404, { detail: 'Not Found' })
    return this.#complete(request.body)
  }

  #complete(request: ChatRequest): Reply {
    if (!Array.isArray(request.messages)) {
      const missing =
        "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {}}]"
      return reject(400, 'Bad Request', missing)
    }
    if (request.model !== 'tiny') {
      return reject(404, 'NotFoundError', `The model \`${request.model}\` does not exist.`)
    }
    try {
      const prompt = renderChat(this.#options.template, messagesOf(request))
      return answerTo(request, prompt, usualAnswer(request))
    } catch (error) {
      if (!(error instanceof TemplateRejection)) throw error
      return reject(400, 'BadRequestError', `${error.message} ${error.message}`)
    }
  }
}

function reject(code: number, type: string, message: string): Reply {
  return json(code, { error: { message, type, param: null, code } })
}
