/**
 * Serves the dashboard's page. Loading it needs no authentication; the data that it shows comes from the admin API, which
 * requires the admin token.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Page } from '../dashboard/page-files.ts'
import { moduleURL } from '../module-url.ts'
import { noSuchRoute } from './errors.ts'
import './request-context.ts'
import {
  bufferOf,
  createStaticFile,
  madeInThread,
  type StaticFile,
  sendStaticFile,
  staticFile,
} from './static-file.ts'

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

/** The URL of a file contains a hash of all files, so it changes with their contents. */
const IMMUTABLE = 'public, max-age=31536000, immutable'

interface Files {
  readonly hash: string
  readonly document: StaticFile
  readonly byPath: ReadonlyMap<string, StaticFile>
}

export function dashboardRoutes(app: FastifyInstance): void {
  const thread = moduleURL('../dashboard/page-thread.ts', import.meta.url)
  const files = filesOf(madeInThread<Page>(thread, 'the dashboard', FILES))
  const options = { config: { public: true } }
  const sendDocument = async (request: FastifyRequest, reply: FastifyReply) => {
    const { document } = await files()
    return sendStaticFile(request, reply.headers(HEADERS).header('cache-control', 'no-cache'), document)
  }
  app.get(HOME, options, sendDocument)
  // The page does its own routing: every path below returns the same document.
  app.get(`${HOME}/*`, options, sendDocument)
  app.get<{ Params: { hash: string; '*': string } }>(`${FILES}/:hash/*`, options, async (request, reply) => {
    const { hash, byPath } = await files()
    const file = request.params.hash === hash ? byPath.get(request.params['*']) : undefined
    if (!file) throw noSuchRoute('GET', FILES)
    return sendStaticFile(request, reply.headers(HEADERS).header('cache-control', IMMUTABLE), file)
  })
}

/** Builds the files at the first call. After a failure, the next call tries again. */
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
