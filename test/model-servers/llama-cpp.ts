/**
 * Behaves as the `llama-server` of llama.cpp does with `--jinja` and a chat template:
 *
 *     const llama = new LlamaCpp({ template: 'gemma-2', contextTokens: 2048 })
 *     const server = await startModelServer({ script: llama.script })
 *     llama.prompts.at(-1)                              // what the model was given
 *
 * The behaviour was observed on builds of February and July 2025 (`generation: 2025`) and of August 2026. The newer builds read
 * `developer` as `system`. They answer 400 instead of 500 when a template rejects a conversation or they cannot enforce a
 * schema.
 */
import { type ChatRequest, isModelList, type Received, type Reply, type Script } from '../model-server.ts'
import { type ChatMessage, type ChatTemplate, renderChat, TemplateRejection } from './chat-templates.ts'
import { answerTo, BYTES_PER_TOKEN, json, messagesOf, tokensOf, usualAnswer } from './usual-answer.ts'

export interface LlamaCppOptions {
  readonly template: ChatTemplate
  readonly generation?: 2025 | 2026
  /** Prompts are cut to this context. One token of this server is four bytes. The context is unlimited by default. */
  readonly contextTokens?: number
  readonly answer?: (request: ChatRequest) => string
}

export class LlamaCpp {
  readonly prompts: string[] = []
  readonly #options: LlamaCppOptions

  constructor(options: LlamaCppOptions) {
    this.#options = options
  }

  readonly script: Script = (request) => this.#answer(request)

  #answer(request: Received): Reply {
    if (isModelList(request)) return json(200, models())
    // The routes of `llama-server` exist with and without /v1.
    if (!/^(\/v1)?\/chat\/completions$/.test(request.path)) {
      return failure(404, 'not_found_error', 'File Not Found')
    }
    return this.#complete(request.body)
  }

  #complete(request: ChatRequest): Reply {
    const { answer = usualAnswer, generation, contextTokens = Number.POSITIVE_INFINITY } = this.#options
    // Any model name is accepted. In 2025, a request without messages fails with an error of the JSON library.
    if (!Array.isArray(request.messages)) {
      const isNew = generation === 2026
      return this.#reject(
        isNew ? "'messages' is required" : "[json.exception.out_of_range.403] key 'messages' not found",
      )
    }
    const problem = schemaProblem(request)
    if (problem !== null) return this.#reject(`JSON schema conversion failed:\n${problem}`)
    let prompt: string
    try {
      prompt = this.#render(messagesOf(request))
    } catch (error) {
      if (!(error instanceof TemplateRejection)) throw error
      // The real server repeats the template for each block that the exception passes through, several kilobytes in total.
      const place = ' at row 1, column 146:\n{{ bos_token }}{% for message in messages %}…\n'.repeat(6)
      return this.#reject(error.message + place)
    }
    const promptTokens = tokensOf(prompt)
    const kept = promptTokens < contextTokens ? prompt : shifted(prompt, promptTokens, contextTokens)
    this.prompts.push(kept)
    return answerTo(request, kept, answer(request))
  }

  #reject(message: string): Reply {
    if (this.#options.generation !== 2026) return failure(500, 'server_error', message)
    const why = `Unable to generate parser for this template. Automatic parser generation failed: ${message}`
    return failure(400, 'invalid_request_error', why)
  }

  #render(messages: readonly ChatMessage[]): string {
    const { template, generation = 2025 } = this.#options
    const known = generation === 2026 ? messages.map(developerAsSystem) : messages
    // An assistant message at the end is the beginning of the answer.
    const last = known.at(-1)
    const [before, begun] = last?.role === 'assistant' ? [known.slice(0, -1), last.content] : [known, '']
    if (before.length === 0 && template !== 'phi-3.5' && generation === 2025) {
      throw new TemplateRejection('vector::_M_range_check')
    }
    return renderChat(template, template === 'gemma-2' ? withoutSystem(before, generation) : before) + begun
  }
}

function developerAsSystem(message: ChatMessage): ChatMessage {
  return message.role === 'developer' ? { ...message, role: 'system' } : message
}

/**
 * Handles templates without a system role. In 2025, each system message is prepended to the text of the following user message,
 * or becomes a user message if another role follows. In 2026, only the first is prepended to the text of the next message,
 * whatever its role. It is lost if there is no next message.
 */
function withoutSystem(messages: readonly ChatMessage[], generation: 2025 | 2026): ChatMessage[] {
  if (generation === 2026) {
    const [first, second, ...others] = messages
    if (first?.role !== 'system') return [...messages]
    return second === undefined
      ? []
      : [{ ...second, content: `${first.content}\n${second.content}` }, ...others]
  }
  const result: ChatMessage[] = []
  let system: string | null = null
  for (const { role, content } of messages) {
    if (role === 'system') system = system === null ? content : `${system}\n${content}`
    else if (system === null) result.push({ role, content })
    else if (role === 'user') {
      result.push({ role, content: `${system}\n${content}` })
      system = null
    } else {
      result.push({ role: 'user', content: system }, { role, content })
      system = null
    }
  }
  if (system !== null) result.push({ role: 'user', content: system })
  return result
}

function schemaProblem(request: ChatRequest): string | null {
  const format = request.response_format
  if (format?.type !== 'json_schema') return null
  const unanchored = /"pattern":"(?!\^)/.test(JSON.stringify(format.json_schema.schema))
  return unanchored ? "Pattern must start with '^' and end with '$'" : null
}

/**
 * Cuts blocks of half the context from the beginning until the rest fits (`n_keep` 0). The client can notice this only from the
 * usage.
 */
function shifted(prompt: string, promptTokens: number, contextTokens: number): string {
  const block = Math.floor(contextTokens / 2)
  const erased = Math.floor((promptTokens - block) / block)
  return prompt.slice(erased * block * BYTES_PER_TOKEN)
}

function models(): unknown {
  const meta = { vocab_type: 1, n_vocab: 417, n_ctx_train: 32_768, n_embd: 64 }
  const model = { id: 'tiny.gguf', object: 'model', created: 1_767_323_045, owned_by: 'llamacpp', meta }
  return { object: 'list', data: [model] }
}

function failure(code: number, type: string, message: string): Reply {
  return json(code, { error: { code, message, type } })
}
