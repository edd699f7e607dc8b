/**
 * Sends responses in the shape that all of Parley's own routes share (SPEC §2.6). Other APIs can give their errors a different
 * shape.
 */
import type { FastifyReply } from 'fastify'
import type { HttpError } from './errors.ts'

export const JSON_TYPE = 'application/json; charset=utf-8'

/** Retry-After of a 202, in seconds: when the caller should first read the new job. */
export const READ_AFTER_S = '1'

/** @param dataJson the JSON text of `data`. It may contain a stored result, which is sent without being parsed. */
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

/** An API whose errors have a different shape from SPEC §2.6. */
export interface OtherApi {
  /** Its paths start with this. */
  readonly prefix: string
  /** Response headers that pages of other origins may read. */
  readonly headers: readonly string[]
  readonly answerOf: (error: HttpError) => ErrorAnswer
}

export interface ErrorAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly bodyJson: string
}

/** Sends an error in the shape of the API that the path of the request belongs to. */
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
