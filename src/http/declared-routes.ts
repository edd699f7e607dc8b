/**
 * The declared routes, for requests without a route: which methods a path supports, and whether pages of other origins may
 * call it.
 */
import type { FastifyInstance, RouteOptions } from 'fastify'

/** As in the router: a longer part of a path does not match a parameter. */
export const LONGEST_PARAMETER = 8192

interface Declared {
  /** The parts of the pattern between slashes. */
  readonly parts: readonly string[]
  readonly method: string
  /** Hooks of a plugin may still change its config. */
  readonly route: RouteOptions
}

export interface PathMethods {
  /** For the Allow header, such as `GET, HEAD, OPTIONS`. */
  readonly allow: string
  readonly methods: ReadonlySet<string>
  /** False if pages of other origins can never call the path. */
  readonly cors: boolean
}

export class DeclaredRoutes {
  readonly #routes: Declared[] = []

  /** Collects every route that is declared after this. */
  watch(app: FastifyInstance): void {
    app.addHook('onRoute', (route: RouteOptions) => {
      const parts = route.url.split('/')
      for (const method of [route.method].flat()) this.#routes.push({ parts, method, route })
    })
  }

  /** Null for an unknown path. Use this only for requests without a route, because it looks at every route. */
  methodsOf(path: string): PathMethods | null {
    const parts = path.split('/')
    const found = this.#routes.filter((declared) => matches(declared.parts, parts))
    if (found.length === 0) return null
    const methods = new Set([...found.map(({ method }) => method).sort(), 'OPTIONS'])
    return {
      allow: [...methods].join(', '),
      methods,
      cors: found.every(({ route }) => route.config?.cors !== false),
    }
  }
}

function matches(pattern: readonly string[], parts: readonly string[]): boolean {
  const isOpen = pattern.at(-1) === '*'
  if (isOpen ? parts.length < pattern.length : parts.length !== pattern.length) return false
  return pattern.every((part, at) => {
    const given = parts[at] ?? ''
    if (part.startsWith(':')) return given !== '' && given.length <= LONGEST_PARAMETER
    return part === given || part === '*'
  })
}
