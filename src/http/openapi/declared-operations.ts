/** The declared routes, for the OpenAPI documents. A route is documented if its schema has an `operationId`. */
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify'

declare module 'fastify' {
  interface FastifySchema {
    /** The name of the route in generated clients, unique among all routes; a route without one is not documented. */
    operationId?: string
    /** One line, without a full stop. */
    summary?: string
    description?: string
    tags?: readonly string[]
    /** The security schemes of the route; empty if it needs no key. */
    security?: readonly Readonly<Record<string, readonly string[]>>[]
  }
}

export interface DeclaredOperation {
  /** In lower case, as in the documents. */
  readonly method: string
  /** With `{name}` for parameters. */
  readonly path: string
  readonly schema: FastifySchema
}

/** Collects every route that is declared after this. The returned function lists them as the last hook left them. */
export function declaredOperations(app: FastifyInstance): () => DeclaredOperation[] {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route: RouteOptions) => void routes.push(route))
  return () =>
    routes.flatMap(({ method, url, schema }) => {
      if (schema?.operationId === undefined) return []
      // The HEAD method that Fastify adds to each GET is not documented.
      const methods = [method].flat().filter((one) => one !== 'HEAD')
      const path = url.replaceAll(/:(\w+)/g, '{$1}')
      return methods.map((one) => ({ method: one.toLowerCase(), path, schema }))
    })
}
