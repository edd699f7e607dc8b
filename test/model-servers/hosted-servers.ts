/**
 * Behaves like hosted services: Mistral, Azure OpenAI, OpenRouter, and the OpenAI-compatible endpoints of Anthropic and Google.
 * Each has its own error format. Azure expects its key in a header of its own, and the others expect a bearer token.
 */
import {
  chatCompletion,
  isModelList,
  type Received,
  type Reply,
  reply,
  type Script,
} from '../model-server.ts'
import { json, messagesOf, usualAnswer } from './usual-answer.ts'

export const KEY = 'a-key-for-tests'

/**
 * Mistral's answers may be an array of parts, with the thinking before the text. The last message must be from a user. Missing
 * messages and unknown roles get 422 with an object as the message. A wrong key gets `{detail}`.
 */
export function mistral({ parts = false }: { readonly parts?: boolean } = {}): Script {
  return (request) => {
    if (!isBearer(request)) return json(401, { detail: 'Unauthorized' })
    if (isModelList(request)) return reply.models('mistral-small-latest')
    const { body } = request
    if (!Array.isArray(body.messages)) {
      const detail = [{ type: 'missing', loc: ['body', 'messages'], msg: 'Field required', input: body }]
      return mistralError(422, { detail }, 'invalid_request_error', null)
    }
    const messages = messagesOf(body)
    const unknown = messages.findIndex(({ role }) => !['system', 'user', 'assistant', 'tool'].includes(role))
    if (unknown !== -1) {
      const loc = ['body', 'messages', unknown]
      const msg = "Input tag 'developer' found using 'role' does not match any of the expected tags"
      const detail = [{ type: 'union_tag_invalid', loc, msg, input: messages[unknown] }]
      return mistralError(422, { detail }, 'invalid_request_error', null)
    }
    const last = messages.at(-1)?.role
    if (last !== 'user') {
      const message = `Expected last role User or Tool (or Assistant with prefix True) for serving but got ${last}`
      return mistralError(400, message, 'invalid_request_message_order', '3230')
    }
    const text = usualAnswer(body)
    const thinking = { type: 'thinking', thinking: [{ type: 'text', text: 'The user asks …' }], closed: true }
    const answer = chatCompletion(body, { content: text })
    if (!parts) return json(200, answer)
    const message = { role: 'assistant', content: [thinking, { type: 'text', text }], tool_calls: null }
    return json(200, { ...answer, choices: [{ ...answer.choices[0], message }] })
  }
}

/**
 * Azure OpenAI takes the deployment from the path, `api-version` from the query, and the key from `api-key`. Without the
 * version it returns 404.
 */
export function azure({ deployment = 'gpt' }: { readonly deployment?: string } = {}): Script {
  return (request) => {
    const url = new URL(request.path, 'http://azure')
    const version = url.searchParams.get('api-version')
    if (request.headers['api-key'] !== KEY) {
      const message =
        'Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an ' +
        'active subscription and use a correct regional API endpoint for your resource.'
      return json(401, { error: { code: '401', message } })
    }
    const path = /^\/openai\/deployments\/([^/]+)\/chat\/completions$/.exec(url.pathname)
    if (version === null || path === null) {
      return json(404, { error: { code: '404', message: 'Resource not found' } })
    }
    if (path[1] !== deployment) {
      const message =
        'The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, ' +
        'please wait a moment and try again.'
      return json(404, { error: { code: 'DeploymentNotFound', message } })
    }
    if (!Array.isArray(request.body.messages)) {
      const message = "Invalid type for 'messages': expected an array of objects, but got a string instead."
      return json(400, { error: { message, type: 'invalid_request_error', param: 'messages', code: null } })
    }
    return json(200, chatCompletion(request.body, { content: usualAnswer(request.body) }))
  }
}

/** OpenRouter's list of models is public. Its errors have the status as `code`. */
export function openRouter({ trouble }: { readonly trouble?: 'credits' } = {}): Script {
  return (request) => {
    if (isModelList(request)) return reply.models('meta-llama/llama-3.2-3b-instruct')
    if (!isBearer(request)) return json(401, { error: { message: 'User not found.', code: 401 } })
    if (!Array.isArray(request.body.messages)) {
      const message = 'Input required: specify "prompt" or "messages"'
      return json(400, { error: { message, code: 400 }, user_id: 'user_test' })
    }
    if (trouble === 'credits') {
      const message = 'Insufficient credits. Add more using https://openrouter.ai/settings/credits'
      return json(402, { error: { message, code: 402 }, user_id: 'user_test' })
    }
    const answer = chatCompletion(request.body, { content: usualAnswer(request.body) })
    return json(200, { ...answer, provider: 'Together' })
  }
}

/**
 * Anthropic's compatible endpoint moves system and developer messages to the beginning, so none is lost. It ignores
 * `response_format`, so the answer may be JSON in a code fence.
 */
export function anthropic(): Script {
  return (request) => {
    if (!isBearer(request)) return anthropicError(401, 'authentication_error', 'invalid x-api-key')
    if (isModelList(request)) return reply.models('claude-sonnet-4-5')
    const { body } = request
    if (!Array.isArray(body.messages)) {
      return anthropicError(400, 'invalid_request_error', 'messages: Field required')
    }
    const answer = usualAnswer({ ...body, response_format: { type: 'text' } })
    const content = answer.startsWith('{') ? `Here it is:\n\n\`\`\`json\n${answer}\n\`\`\`` : answer
    return json(200, chatCompletion(body, { content }))
  }
}

/** Google's compatible endpoint sends an error as an array of one element. A wrong key gets 400 in this form, too. */
export function google(): Script {
  return (request) => {
    if (!isBearer(request)) {
      const message = 'API key not valid. Please pass a valid API key.'
      const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }]
      return json(400, [{ error: { code: 400, message, status: 'INVALID_ARGUMENT', details } }])
    }
    if (isModelList(request)) return reply.models('models/gemini-2.5-flash')
    if (!Array.isArray(request.body.messages)) {
      const message = 'Please ensure that the request has contents.'
      return json(400, [{ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }])
    }
    return json(200, chatCompletion(request.body, { content: usualAnswer(request.body) }))
  }
}

function isBearer(request: Received): boolean {
  return request.headers.authorization === `Bearer ${KEY}`
}

function mistralError(status: number, message: unknown, type: string, code: string | null): Reply {
  return json(status, { object: 'error', message, type, param: null, code })
}

function anthropicError(status: number, type: string, message: string): Reply {
  return json(status, { type: 'error', error: { type, message }, request_id: 'req_test' })
}
