/** GET /openapi.json, generated from the routes themselves, and GET /docs, a page to read it. */
import { createHash } from 'node:crypto'
import swagger from '@fastify/swagger'
import apiReference from '@scalar/fastify-api-reference'
import type { FastifyInstance, FastifyReply } from 'fastify'
import '../request-context.ts'

const ABOUT = `Runs AI message jobs: send a conversation, and get the answer in the same response, by polling, or by a signed callback.

\`timeout\` belongs to single creates; \`callback\` belongs to batches.`

/** Call this before the routes are declared, so that it sees all of them. */
export async function openapiRoutes(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Parley', description: ABOUT, version },
      components: {
        securitySchemes: {
          apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
          adminToken: { type: 'http', scheme: 'bearer', description: 'The admin token of the server.' },
        },
      },
    },
    transformObject: (documented) => {
      if (!('openapiObject' in documented)) return documented.swaggerObject
      markRequiredBodies(documented.openapiObject.paths ?? {})
      return documented.openapiObject
    },
  })
  app.get('/openapi.json', { config: { public: true }, schema: { hide: true } }, () => app.swagger())
  await app.register((scope, _options, done) => {
    scope.addHook('onSend', (_request, reply, payload, next) => {
      if (typeof payload === 'string' && isHtml(reply))
        reply.header('content-security-policy', policyFor(payload))
      next(null, payload)
    })
    scope.addHook('onRoute', (route) => {
      route.config = { ...route.config, public: true }
      route.schema = { ...route.schema, hide: true }
    })
    void scope.register(apiReference, {
      routePrefix: '/docs',
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
    done()
  })
}

interface Body {
  required?: boolean
  readonly content: Readonly<Record<string, { readonly schema?: object }>>
}

/** The plugin marks every body as required; here an object without required fields may be left out. */
function markRequiredBodies(paths: Readonly<Record<string, object | undefined>>): void {
  for (const methods of Object.values(paths)) {
    for (const { requestBody } of Object.values<{ requestBody?: Body }>({ ...methods })) {
      const schema = requestBody?.content['application/json']?.schema
      if (requestBody && schema && 'properties' in schema) requestBody.required = 'required' in schema
    }
  }
}

function isHtml(reply: FastifyReply): boolean {
  return String(reply.getHeader('content-type')).startsWith('text/html')
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
