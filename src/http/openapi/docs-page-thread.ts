/**
 * Builds the page /docs, which shows the OpenAPI documents, with its script and its content security policy. It runs on a
 * thread, because loading the package takes long; see routes.ts.
 */

import { createHash } from 'node:crypto'
import { parentPort } from 'node:worker_threads'
import fastify, { type FastifyInstance } from 'fastify'
import { createStaticFile, type StaticFile } from '../static-file.ts'

export const PREFIX = '/docs'
export const PAGE = `${PREFIX}/`
export const SCRIPT = `${PREFIX}/js/scalar.js`

export interface DocsPage {
  readonly page: StaticFile
  readonly policy: string
  readonly script: StaticFile
}

/** Reads the page from a Fastify server that does not listen, because Scalar's package can only serve the page in Fastify. */
async function makeDocsPage(): Promise<DocsPage> {
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
        { title: "OpenAI's API", slug: 'v1', url: '/v1/openapi.json' },
        { title: 'Admin API', slug: 'admin', url: '/admin/api/openapi.json' },
      ],
      withDefaultFonts: false,
      telemetry: false,
      hideClientButton: true,
      persistAuth: false,
      pageTitle: 'Parley: API reference',
      authentication: { preferredSecurityScheme: 'apiKey' },
      // These features would send data to the services of the package's maker.
      agent: { disabled: true },
      mcp: { disabled: true },
      showDeveloperTools: 'never',
    },
  })
  return page
}

/** The page has an inline script, which the policy allows by its hash, and it adds styles at run time. */
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

// Only a thread has a port to post to. The main thread imports this file as well, for the paths.
parentPort?.postMessage(await makeDocsPage())
