/** Responds to requests that could not be read: malformed, too slow, with too large headers, or behind too many others. */
import type { Socket } from 'node:net'
import { JSON_TYPE } from './envelope.ts'
import { TOO_MANY_WAIT } from './pipelined-requests.ts'

/** How long a client has to read the response. */
const LINGER_MS = 1000
const RETRY_S = 5

/** Returns the status of the response; null if none could be sent. */
export function answerBrokenRequest(
  error: Error & { code?: string },
  socket: Socket,
  id: string,
): number | null {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return null
  }
  const [status, reason, message] = brokenBy(error.code)
  const body = JSON.stringify({ success: false, message })
  const head = [
    `HTTP/1.1 ${status} ${reason}`,
    `x-request-id: ${id}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${body.length}`,
    ...(status === 503 ? [`retry-after: ${RETRY_S}`] : []),
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  // If the socket were destroyed right away, unread bytes would reset the connection before the client has read the response.
  // A client that keeps sending must not keep it open either.
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  socket.once('close', () => clearTimeout(timer))
  return status
}

function brokenBy(code: string | undefined): [status: number, reason: string, message: string] {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'Request Timeout', 'The request did not arrive in time.']
    case 'HPE_HEADER_OVERFLOW':
      return [431, 'Request Header Fields Too Large', 'The request headers are too large.']
    case TOO_MANY_WAIT:
      return [
        503,
        'Service Unavailable',
        'Too many requests wait on this connection. Read responses before you send more.',
      ]
    default:
      return [400, 'Bad Request', 'The request is not valid HTTP.']
  }
}
