/** The routes as they are declared, for the OpenAPI documents. A route is documented if its schema has an `operationId`. */
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify'

declare module 'fastify' {
  interface FastifySchema {
    /** The name of the route in generated clients, unique among all routes; a route without one is not documented. */
    operationId?: string
    /** One line, without a full stop. */
    summary?: string
    description?: string
    tags?: readonly string[]
    /** The schemes that open it; none for a route that needs no key. */
    security?: readonly Readonly<Record<string, readonly string[]>>[]
  }
}

export interface DeclaredOperation {
  /** In lower case, as the documents have it. */
  readonly method: string
  /** With `{name}` for parameters. */
  readonly path: string
  readonly schema: FastifySchema
}

/** Sees every route that is declared after this, and returns what lists them as the last hook left them. */
export function declaredOperations(app: FastifyInstance): () => DeclaredOperation[] {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route: RouteOptions) => void routes.push(route))
  return () =>
    routes.flatMap(({ method, url, schema }) => {
      if (schema?.operationId === undefined) return []
      // The HEAD that comes with each GET is not documented.
      const methods = [method].flat().filter((one) => one !== 'HEAD')
      const path = url.replaceAll(/:(\w+)/g, '{$1}')
      return methods.map((one) => ({ method: one.toLowerCase(), path, schema }))
    })
}
