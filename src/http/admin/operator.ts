/** Who sends an admin request, as far as it says: the token is one for all. */
import type { FastifyRequest } from 'fastify'
import Type from 'typebox'
import { invalid } from '../errors.ts'

const HEADER = 'x-parley-operator'
const MOST_CHARACTERS = 64
/** What would move a cursor, turn the writing or end a line. */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

/** The request header of every route whose use is in the audit log. */
export const operatorHeader = Type.Object({
  [HEADER]: Type.Optional(
    Type.String({
      description: `The name of who sends this, for the audit log: 1 to ${MOST_CHARACTERS} characters, without controls. It is believed, since the token is one for all.`,
    }),
  ),
})

/** Null where the request does not say. Throws a refusal for what is no name. */
export function operatorOf(request: FastifyRequest): string | null {
  const given = request.headers[HEADER]
  if (given === undefined) return null
  const name = textOf(String(given)).trim()
  if ([...name].length > MOST_CHARACTERS || name === '' || CONTROLS.test(name)) {
    throw invalid(`${HEADER}: must be 1 to ${MOST_CHARACTERS} characters, without controls`)
  }
  return name
}

/** A header's bytes: UTF-8 as commands send it, or Latin-1 as browsers do. */
function textOf(bytes: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'))
  } catch {
    return bytes
  }
}

/** As the audit log names them. */
export function whoIs(request: FastifyRequest): string {
  return `${operatorOf(request) ?? 'admin token'} from ${request.ip} (admin API)`
}
