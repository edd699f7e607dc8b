/** The operator's name in admin requests. All operators share one token, so only this header distinguishes them. */
import type { FastifyRequest } from 'fastify'
import Type from 'typebox'
import { invalid } from '../errors.ts'
import { addressOf } from '../network-of.ts'

const HEADER = 'x-parley-operator'
const MAX_CHARACTERS = 64
/** Characters that would move a terminal's cursor, change the writing direction or end a line. */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

/** The request header of every route that writes to the audit log. */
export const operatorHeader = Type.Object({
  [HEADER]: Type.Optional(
    Type.String({
      description: `The name of the operator, for the audit log: 1 to ${MAX_CHARACTERS} characters, without control characters. The name is not verified, because all operators share one token.`,
      examples: ['alice'],
    }),
  ),
})

/** Returns null if the request has no such header. Throws 400 for a name that is not valid. */
export function operatorOf(request: FastifyRequest): string | null {
  const given = request.headers[HEADER]
  if (given === undefined) return null
  const name = textOf(String(given)).trim()
  if ([...name].length > MAX_CHARACTERS || name === '' || CONTROLS.test(name)) {
    throw invalid(`${HEADER}: must be 1 to ${MAX_CHARACTERS} characters, without control characters`)
  }
  return name
}

/** Decodes a header, which commands send as UTF-8 and browsers as Latin-1. */
function textOf(bytes: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'))
  } catch {
    return bytes
  }
}

/** Who sent the request, as the audit log records it. */
export function auditName(request: FastifyRequest): string {
  return `${operatorOf(request) ?? 'admin token'} from ${addressOf(request)} (admin API)`
}
