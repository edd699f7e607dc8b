/** Serves the files of the dashboard to anyone. The page gets its data from the APIs, which require a token or a key. */
import './request-context.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Page } from '../dashboard/page-files.ts'
import { noSuchRoute } from './errors.ts'
import { builtOnThread } from './page-thread.ts'
import { bufferOf, createStaticFile, type StaticFile, sendStaticFile, staticFile } from './static-file.ts'

const HOME = '/dashboard'
const FILES = `${HOME}/files`

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

/** The URL of a file contains a hash of all files, so a change gives each file a new URL. */
const IMMUTABLE = 'public, max-age=31536000, immutable'

interface Files {
  readonly hash: string
  readonly document: StaticFile
  readonly byPath: ReadonlyMap<string, StaticFile>
}

export function dashboardRoutes(app: FastifyInstance): void {
  const files = filesOf(builtOnThread<Page>('the dashboard', FILES))
  const options = { config: { public: true } }
  const sendDocument = async (request: FastifyRequest, reply: FastifyReply) => {
    const { document } = await files()
    return sendStaticFile(request, reply.headers(HEADERS).header('cache-control', 'no-cache'), document)
  }
  app.get(HOME, options, sendDocument)
  // The page routes by itself, so every path below /dashboard returns the same document.
  app.get(`${HOME}/*`, options, sendDocument)
  app.get<{ Params: { hash: string; '*': string } }>(`${FILES}/:hash/*`, options, async (request, reply) => {
    const { hash, byPath } = await files()
    const file = request.params.hash === hash ? byPath.get(request.params['*']) : undefined
    if (!file) throw noSuchRoute('GET', FILES)
    return sendStaticFile(request, reply.headers(HEADERS).header('cache-control', IMMUTABLE), file)
  })
}

/** Builds the files at the first call, or again after a failure. */
function filesOf(page: () => Promise<Page>): () => Promise<Files> {
  let files: Files | null = null
  return async () => {
    if (files !== null) return files
    const { hash, html, files: pageFiles } = await page()
    const entries = pageFiles.map(
      ({ path, type, body, gzipped }) => [path, staticFile(type, bufferOf(body), bufferOf(gzipped))] as const,
    )
    const document = await createStaticFile('text/html; charset=utf-8', Buffer.from(html))
    files = { hash, document, byPath: new Map(entries) }
    return files
  }
}
