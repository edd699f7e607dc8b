/**
 * Builds the dashboard and the page /docs on a thread, because building either of them would block the event loop. The thread
 * runs this file, too: its `workerData` is /docs, or the base URL of the dashboard's files.
 */
import { createHash } from 'node:crypto'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import type { FastifyInstance } from 'fastify'
import type { Page } from '../dashboard/page-files.ts'
import { createStaticFile, type StaticFile } from './static-file.ts'

export const DOCS = '/docs'
export const DOCS_PAGE = `${DOCS}/`
export const DOCS_SCRIPT = `${DOCS}/js/scalar.js`

async function makeDashboard(base: string): Promise<Page> {
  const { makePage } = await import('../dashboard/page-files.ts')
  return makePage(base)
}

export interface DocsPage {
  readonly page: StaticFile
  readonly policy: string
  readonly script: StaticFile
}

/** Scalar's package can only serve its page in Fastify, so this server does not listen, and the page is read from it. */
async function makeDocsPage(): Promise<DocsPage> {
  const server = await renderer()
  const [page, script] = await Promise.all([server.inject(DOCS_PAGE), server.inject(DOCS_SCRIPT)])
  await server.close()
  const typeOf = ({ headers }: typeof page) => String(headers['content-type'])
  return {
    page: await createStaticFile(typeOf(page), page.rawPayload),
    policy: policyFor(page.payload),
    script: await createStaticFile(typeOf(script), script.rawPayload),
  }
}

/** Fastify is imported here, because the thread of the dashboard does not need it. */
async function renderer(): Promise<FastifyInstance> {
  const { default: fastify } = await import('fastify')
  const { default: apiReference } = await import('@scalar/fastify-api-reference')
  const page = fastify()
  await page.register(apiReference, {
    routePrefix: DOCS,
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
      // These features would send data to the maker of the package.
      agent: { disabled: true },
      mcp: { disabled: true },
      showDeveloperTools: 'never',
    },
  })
  return page
}

/** The page has an inline script, which the policy allows by its hash, and adds styles at run time. */
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

/**
 * Starts the thread at the first call, or again after a failure. The result is kept.
 * @param what names the page in the error message
 */
export function builtOnThread<T>(what: string, workerData: string): () => Promise<T> {
  let built: Promise<T> | null = null
  return () => {
    built ??= build<T>(what, workerData).catch((error: unknown) => {
      built = null
      throw error
    })
    return built
  }
}

function build<T>(what: string, workerData: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), {
      workerData,
      // Operators cannot prevent Node's warning that type stripping is experimental, so it would only clutter their log.
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) =>
      reject(new Error(`the thread that builds ${what} exited with code ${code}`)),
    )
  })
}

// Threads of other modules may import this one, too.
if (parentPort && typeof workerData === 'string')
  parentPort.postMessage(await (workerData === DOCS ? makeDocsPage() : makeDashboard(workerData)))
