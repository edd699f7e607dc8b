/** Numbers in a query come as text; what a route's schema calls a number is made one before it is checked. */
import type { FastifyRequest } from 'fastify'

const NUMBER = /^-?\d{1,15}(\.\d{1,9})?$/

export function readQueryNumbers({ query, routeOptions }: FastifyRequest): void {
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
