/**
 * GET /docs, a page to read the OpenAPI documents. The package that renders it is loaded with the first request for it: the
 * package contains megabytes of script, and loading it takes a sixth of the time that a server needs to start.
 */
import { createHash } from 'node:crypto'
import fastify, { type FastifyInstance } from 'fastify'
import '../request-context.ts'
import { createStaticFile, type StaticFile, sendStaticFile } from '../static-file.ts'

const PREFIX = '/docs'
/** The page and its script. */
const PAGE = `${PREFIX}/`
const SCRIPT = `${PREFIX}/js/scalar.js`

interface DocsPage {
  readonly page: StaticFile
  readonly policy: string
  readonly script: StaticFile
}

export function serveDocsPage(app: FastifyInstance): void {
  const options = { config: { public: true } }
  let loaded: Promise<DocsPage> | undefined
  app.get(PREFIX, options, (_request, reply) => reply.redirect(PAGE))
  app.get(PAGE, options, async (request, reply) => {
    loaded ??= loadPage()
    const { page, policy } = await loaded
    return sendStaticFile(request, reply.header('content-security-policy', policy), page)
  })
  app.get(SCRIPT, options, async (request, reply) => {
    loaded ??= loadPage()
    return sendStaticFile(request, reply, (await loaded).script)
  })
}

/** The package serves its files from a server of its own, which does not listen. */
async function loadPage(): Promise<DocsPage> {
  const server = await renderer()
  const [page, script] = await Promise.all([server.inject(PAGE), server.inject(SCRIPT)])
  await server.close()
  const typeOf = ({ headers }: typeof page) => String(headers['content-type'])
  return {
    page: await createStaticFile(typeOf(page), page.rawPayload),
    policy: policyFor(page.payload),
    script: await createStaticFile(typeOf(script), script.rawPayload),
  }
}

async function renderer(): Promise<FastifyInstance> {
  const { default: apiReference } = await import('@scalar/fastify-api-reference')
  const page = fastify()
  await page.register(apiReference, {
    routePrefix: PREFIX,
    configuration: {
      sources: [
        { title: 'API', slug: 'api', url: '/openapi.json', default: true },
        { title: 'Admin API', slug: 'admin', url: '/admin/api/openapi.json' },
      ],
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
