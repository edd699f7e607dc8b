/** The User-Agent header of the client. */
import { VERSION } from './version.ts'

interface Runtime {
  readonly process?: { readonly versions?: { readonly node?: string; readonly bun?: string } }
  readonly Deno?: { readonly version?: { readonly deno?: string } }
}

/**
 * Returns a text such as `parley-client/0.1.0 (node 24.1.0)`; undefined in browsers and their workers, which send their own user
 * agent and could replace it only with the server's permission (CORS).
 */
export function userAgent(runtime: Runtime = globalThis as Runtime): string | undefined {
  // Bun and Deno also report a version of Node.
  const { node, bun } = runtime.process?.versions ?? {}
  const deno = runtime.Deno?.version?.deno
  const name = deno ? `deno ${deno}` : bun ? `bun ${bun}` : node ? `node ${node}` : undefined
  return name && `parley-client/${VERSION} (${name})`
}
