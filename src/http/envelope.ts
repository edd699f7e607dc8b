/** Sends responses in the shape of Parley's own API (SPEC §2.6), and errors in the shape of the API of the path. */
import type { FastifyReply } from 'fastify'
import type { HttpError } from './errors.ts'

export const JSON_TYPE = 'application/json; charset=utf-8'

/** The caller should wait this long before the first read of the new job. */
export const READ_AFTER_S = '1'

/** @param dataJson sent unchanged, because a stored result need not be parsed */
export function sendData(
  reply: FastifyReply,
  status: number,
  message: string,
  dataJson: string,
): FastifyReply {
  return reply
    .code(status)
    .header('content-type', JSON_TYPE)
    .send(`{"success":true,"message":${JSON.stringify(message)},"data":${dataJson}}`)
}

/** Sends JSON text without the envelope of Parley's own API. */
export function sendJson(reply: FastifyReply, json: string): FastifyReply {
  return reply.header('content-type', JSON_TYPE).send(json)
}

export interface OtherApi {
  /** All paths of the API begin with this text. */
  readonly prefix: string
  /** Pages of other origins may read these response headers. */
  readonly headers: readonly string[]
  readonly answerOf: (error: HttpError) => ErrorAnswer
}

export interface ErrorAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly bodyJson: string
}

export function sendErrorOf(api: OtherApi, reply: FastifyReply, error: HttpError): FastifyReply {
  if (!reply.request.raw.url?.startsWith(api.prefix)) return sendError(reply, error)
  const { status, headers, bodyJson } = api.answerOf(error)
  return reply.code(status).headers(headers).header('content-type', JSON_TYPE).send(bodyJson)
}

export function sendError(reply: FastifyReply, error: HttpError): FastifyReply {
  const { status, message, details, retryAfterS } = error
  if (retryAfterS !== undefined) reply.header('retry-after', String(retryAfterS))
  return reply
    .code(status)
    .header('content-type', JSON_TYPE)
    .send(JSON.stringify({ success: false, message, ...(details !== undefined && { details }) }))
}
