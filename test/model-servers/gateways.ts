/**
 * Behaves like gateways. Portkey requires its own headers, LiteLLM embeds its provider's message in a sentence, and proxies
 * send HTML.
 */
import { chatCompletion, isModelList, reply, type Script } from '../model-server.ts'
import { json, usualAnswer } from './usual-answer.ts'

/**
 * Portkey's gateway, as observed in version 1.15, chooses the provider by one of two headers. Requests with neither get 400,
 * and a request for the models fails. If the server behind it is unreachable, it returns its own 500.
 */
export function portkey({ isServerDown = false }: { readonly isServerDown?: boolean } = {}): Script {
  return (request) => {
    const { headers, body } = request
    if (headers['x-portkey-provider'] === undefined && headers['x-portkey-config'] === undefined) {
      const message = 'Either x-portkey-config or x-portkey-provider header is required'
      return json(400, { status: 'failure', message })
    }
    if (isModelList(request)) return json(500, { status: 'failure', message: 'Something went wrong' })
    if (isServerDown) {
      const message = 'Message: fetch failed Cause: Error: connect ECONNREFUSED 127.0.0.1:1 Name: TypeError'
      return json(500, { 'html-message': message })
    }
    if (!Array.isArray(body.messages)) {
      const message = "openai error: Invalid type for 'messages': expected an array of objects."
      return json(400, { error: { message, type: 'invalid_request_error', param: 'messages', code: null } })
    }
    return json(200, { ...chatCompletion(body, { content: usualAnswer(body) }), provider: 'openai' })
  }
}

/** LiteLLM's error codes are strings. Its message contains the provider's error. */
export function liteLlm({ key }: { readonly key: string }): Script {
  return (request) => {
    if (request.headers.authorization !== `Bearer ${key}`) {
      const message = 'Authentication Error, Invalid proxy server token passed.'
      return json(401, { error: { message, type: 'auth_error', param: 'None', code: '401' } })
    }
    if (isModelList(request)) return reply.models('tiny')
    const { body } = request
    if (body.model !== 'tiny') {
      const message =
        `litellm.BadRequestError: Invalid model name passed in model=${body.model}. ` +
        'Call `/v1/models` to view available models for your key.'
      return json(400, { error: { message, type: null, param: null, code: '400' } })
    }
    if (!Array.isArray(body.messages)) {
      const message = "litellm.BadRequestError: OpenAIException - Invalid type for 'messages'."
      return json(400, { error: { message, type: null, param: null, code: '400' } })
    }
    return json(200, chatCompletion(body, { content: usualAnswer(body) }))
  }
}

/** A proxy whose backend is down answers 502 with an HTML page. */
export function proxyWithoutServer(): Script {
  const page =
    '<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>502 Bad Gateway</body>\r\n</html>'
  const headers = { 'content-type': 'text/html', server: 'nginx' }
  return () => reply.status(502, { headers, body: page })
}
