/** Serves the dashboard's page. It needs no authentication, and shows nothing without the admin token. */
import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type PageFile, pageMaker } from '../dashboard/page.ts'
import { noSuchRoute } from './errors.ts'
import './request-context.ts'

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

/** The address of a file changes with its contents. */
const IMMUTABLE = 'public, max-age=31536000, immutable'

export function dashboardRoutes(app: FastifyInstance): void {
  const page = pageMaker(FILES)
  const options = { config: { public: true }, schema: { hide: true } }
  const sendDocument = async (request: FastifyRequest, reply: FastifyReply) => {
    const { html } = await page()
    const etag = `"${createHash('sha256').update(html).digest('base64url').slice(0, 16)}"`
    reply.headers(HEADERS).header('cache-control', 'no-cache').header('etag', etag)
    if (request.headers['if-none-match'] === etag) return reply.code(304).send()
    return reply.header('content-type', 'text/html; charset=utf-8').send(html)
  }
  app.get(HOME, options, sendDocument)
  // The page does its own routing: every address below is the same document.
  app.get(`${HOME}/*`, options, sendDocument)
  app.get<{ Params: { hash: string; '*': string } }>(`${FILES}/:hash/*`, options, async (request, reply) => {
    const { hash, files } = await page()
    const path = request.params['*']
    const file = request.params.hash === hash ? files.find((one) => one.path === path) : undefined
    if (!file) throw noSuchRoute('GET', FILES)
    return sendFile(request, reply, file)
  })
}

function sendFile(request: FastifyRequest, reply: FastifyReply, file: PageFile): FastifyReply {
  const zipped = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
  reply.headers(HEADERS).header('cache-control', IMMUTABLE).header('vary', 'accept-encoding')
  if (zipped) reply.header('content-encoding', 'gzip')
  return reply.header('content-type', file.type).send(Buffer.from(zipped ? file.gzipped : file.body))
}
