/** What the server knows of a path whose request has no route: the methods that the path has, and whether pages may ask. */
import type { FastifyInstance, RouteOptions } from 'fastify'

/** As the router has it: a longer part of a path matches no parameter. */
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
  /** False where pages of other origins may never call. */
  readonly cors: boolean
}

export class DeclaredRoutes {
  readonly #routes: Declared[] = []

  /** Sees every route that is declared after this. */
  watch(app: FastifyInstance): void {
    app.addHook('onRoute', (route: RouteOptions) => {
      const parts = route.url.split('/')
      for (const method of [route.method].flat()) this.#routes.push({ parts, method, route })
    })
  }

  /** Null for a path that no route has. Only for requests without a route: it looks at every route. */
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
