/** Converts query parameters from text to numbers where the route's schema declares numbers, before validation. */
import type { FastifyReply, FastifyRequest } from 'fastify'

const NUMBER = /^-?\d{1,15}(\.\d{1,9})?$/

function readQueryNumbers({ query, routeOptions }: FastifyRequest): void {
  const schema = routeOptions.schema?.querystring as
    | { readonly properties?: Readonly<Record<string, { readonly type?: string }>> }
    | undefined
  const given = query as Record<string, unknown>
  for (const [name, { type }] of Object.entries(schema?.properties ?? {})) {
    const text = given[name]
    if (type !== 'number' && type !== 'integer') continue
    if (typeof text === 'string' && NUMBER.test(text)) given[name] = Number(text)
  }
}

/** A `preValidation` hook. */
export function convertQueryNumbers(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  readQueryNumbers(request)
  done()
}
