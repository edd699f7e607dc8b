/** Behaves like Ollama and LM Studio on a desktop. They need no API key, and have their own error formats. */
import { chatCompletion, isModelList, type Reply, reply, type Script } from '../model-server.ts'
import { answerTo, json, messagesOf, usualAnswer } from './usual-answer.ts'

/**
 * Ollama takes a model without a tag as `:latest`. It leaves out roles that the template does not know, and answers unknown
 * paths in plain text. Errors are objects inside `error`, with a `code` of null.
 */
export class Ollama {
  readonly script: Script = (request) => {
    if (request.path === '/v1/models') return reply.models('llama3.2:latest')
    if (request.path !== '/v1/chat/completions') return reply.status(404, { body: '404 page not found' })
    const { body } = request
    if (!Array.isArray(body.messages) || body.messages.length === 0) {
      return ollamaError(400, 'invalid_request_error', "[] is too short - 'messages'")
    }
    if (!['llama3.2', 'llama3.2:latest'].includes(body.model)) {
      return ollamaError(404, 'not_found_error', `model '${body.model}' not found`)
    }
    const known = messagesOf(body).filter(({ role }) => ['system', 'user', 'assistant'].includes(role))
    const prompt = known.map(({ role, content }) => `${role}: ${content}`).join('\n')
    return answerTo(body, prompt, usualAnswer(body), { system_fingerprint: 'fp_ollama' })
  }
}

/**
 * LM Studio answers an unknown path with **200** and an error. Errors are a string in `error`. It rejects `json_object`. A
 * loaded model answers for any requested name.
 */
export function lmStudio(): Script {
  return (request) => {
    if (isModelList(request) && request.path.startsWith('/v1/')) return reply.models('qwen2.5-7b-instruct')
    if (request.path !== '/v1/chat/completions') {
      const error = `Unexpected endpoint or method. (${request.method} ${request.path})`
      return json(200, { error })
    }
    const { body } = request
    if (!Array.isArray(body.messages)) return json(400, { error: "'messages' field is required" })
    if (body.response_format?.type === 'json_object') {
      return json(400, { error: "'response_format.type' must be 'json_schema' or 'text'" })
    }
    return json(200, { ...chatCompletion(body, { content: usualAnswer(body) }), stats: {} })
  }
}

function ollamaError(status: number, type: string, message: string): Reply {
  return json(status, { error: { message, type, param: null, code: null } })
}
