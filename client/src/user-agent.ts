/** Creates the `user-agent` header of the client. */
import { VERSION } from './version.ts'

interface Runtime {
  readonly process?: { readonly versions?: { readonly node?: string; readonly bun?: string } }
  readonly Deno?: { readonly version?: { readonly deno?: string } }
}

/**
 * Returns a text such as `parley-client/0.1.0 (node 24.1.0)`. Browsers and their workers get undefined, because a different
 * user agent would need the server's permission (CORS).
 */
export function userAgent(runtime: Runtime = globalThis as Runtime): string | undefined {
  // Bun and Deno also report a version of Node, so they are checked first.
  const { node, bun } = runtime.process?.versions ?? {}
  const deno = runtime.Deno?.version?.deno
  const name = deno ? `deno ${deno}` : bun ? `bun ${bun}` : node ? `node ${node}` : undefined
  return name && `parley-client/${VERSION} (${name})`
}
