/** Converts query parameters from text to numbers where the route's schema declares numbers, before validation. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import './request-context.ts'

const NUMBER = /^-?\d{1,15}(\.\d{1,9})?$/

/** A `preValidation` hook. */
export function convertQueryNumbers(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const given = request.query as Record<string, unknown>
  const names = Object.keys(given)
  // Most reads have no query.
  if (names.length > 0) {
    const schema = request.route.schema?.querystring as
      | { readonly properties?: Readonly<Record<string, { readonly type?: string }>> }
      | undefined
    for (const name of names) {
      const text = given[name]
      const type = schema?.properties?.[name]?.type
      if (type !== 'number' && type !== 'integer') continue
      if (typeof text === 'string' && NUMBER.test(text)) given[name] = Number(text)
    }
  }
  done()
}
