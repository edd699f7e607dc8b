/**
 * GET /docs, a page to read the OpenAPI document. The package that renders it is loaded with the first request for it: the
 * package contains megabytes of script, and loading it takes a sixth of the time that a server needs to start.
 */
import { createHash } from 'node:crypto'
import fastify, { type FastifyInstance } from 'fastify'
import '../request-context.ts'

const PREFIX = '/docs'
/** The page, with and without the slash, and its script. */
const PATHS = [PREFIX, `${PREFIX}/`, `${PREFIX}/js/scalar.js`]

export function serveDocsPage(app: FastifyInstance): void {
  let loaded: Promise<FastifyInstance> | undefined
  for (const path of PATHS) {
    app.get(path, { config: { public: true }, schema: { hide: true } }, async (_request, reply) => {
      loaded ??= loadPage()
      const { statusCode, headers, payload, rawPayload } = await (await loaded).inject(path)
      const { location, 'content-type': type } = headers
      if (typeof location === 'string') return reply.redirect(location, statusCode)
      if (String(type).startsWith('text/html')) reply.header('content-security-policy', policyFor(payload))
      return reply.code(statusCode).header('content-type', type).send(rawPayload)
    })
  }
}

/** A separate server that does not listen: the routes above inject their requests into it. */
async function loadPage(): Promise<FastifyInstance> {
  const { default: apiReference } = await import('@scalar/fastify-api-reference')
  const page = fastify()
  await page.register(apiReference, {
    routePrefix: PREFIX,
    configuration: {
      url: '/openapi.json',
      withDefaultFonts: false,
      telemetry: false,
      hideClientButton: true,
      persistAuth: false,
      pageTitle: 'Parley: API reference',
      authentication: { preferredSecurityScheme: 'apiKey' },
      // These would send data to its maker's own services.
      agent: { disabled: true },
      mcp: { disabled: true },
      showDeveloperTools: 'never',
    },
  })
  return page
}

/** The page contains an inline script, which is allowed by its hash, and creates its styles at run time. */
function policyFor(html: string): string {
  const inline = [...html.matchAll(/<script(?![^>]*\bsrc=)[^>]*>([\s\S]*?)<\/script>/g)]
  const hashes = inline.map(
    ([, script = '']) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`,
  )
  return [
    "default-src 'none'",
    `script-src 'self' ${hashes.join(' ')}`,
    "style-src 'self' 'unsafe-inline'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
}
