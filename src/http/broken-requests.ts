/**
 * Responds to requests that the server could not read: invalid HTTP, not received in time, too many header bytes, or too many
 * waiting requests on one connection.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { JSON_TYPE, type OtherApi } from './envelope.ts'
import { HttpError } from './errors.ts'
import { TOO_MANY_WAIT } from './pipelined-requests.ts'

/**
 * The path is searched only in this many characters at the beginning of a request, because its prefix decides the shape of the
 * error.
 */
const READ_CHARACTERS = 100
/** After the response, the connection stays open for at most this long, so that the client can read it. */
const LINGER_MS = 1000
const RETRY_S = 5

/** An error of Node's HTTP parser, with the bytes that it could not parse, or the error of a timeout. */
interface BrokenRequest extends Error {
  readonly code?: string
  readonly rawPacket?: unknown
}

/**
 * Returns the path of the request. It is known if the headers have arrived, or if the bytes that could not be parsed begin with
 * it; otherwise returns an empty text.
 */
function pathOfBroken({ rawPacket }: BrokenRequest, socket: Socket & { _httpMessage?: unknown }): string {
  const current = socket._httpMessage as ServerResponse<IncomingMessage> | null | undefined
  if (current?.req.url !== undefined) return current.req.url
  const start = Buffer.isBuffer(rawPacket) ? rawPacket.toString('latin1', 0, READ_CHARACTERS) : ''
  return /^[A-Z]+ (\S+)/.exec(start)?.[1] ?? ''
}

/** Returns the status of the response; null if the connection was already closed. */
export function answerBrokenRequest(
  error: BrokenRequest,
  socket: Socket,
  id: string,
  otherApi: OtherApi,
): number | null {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return null
  }
  const [status, reason, message] = brokenBy(error.code)
  const isOther = pathOfBroken(error, socket).startsWith(otherApi.prefix)
  const answer = isOther ? otherApi.answerOf(new HttpError(status, message)) : null
  const body = answer?.bodyJson ?? JSON.stringify({ success: false, message })
  const head = [
    `HTTP/1.1 ${status} ${reason}`,
    `x-request-id: ${id}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${body.length}`,
    ...Object.entries(answer?.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    ...(status === 503 ? [`retry-after: ${RETRY_S}`] : []),
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  // If a connection is destroyed while it has unread bytes, the client gets a reset and may lose the response. So the client
  // closes the connection; the timer closes it if the client does not.
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
