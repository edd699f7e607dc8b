/**
 * GET /docs, a page that shows the OpenAPI documents. A thread builds it at the first request: the package that renders it
 * contains megabytes of script, and loading it would block the event loop for more than 100 ms.
 */
import { Worker } from 'node:worker_threads'
import type { FastifyInstance } from 'fastify'
import { moduleURL } from '../../module-url.ts'
import '../request-context.ts'
import { type StaticFile, sendStaticFile } from '../static-file.ts'
import { type DocsPage, PAGE, PREFIX, SCRIPT } from './docs-page-files.ts'

export function serveDocsPage(app: FastifyInstance): void {
  const options = { config: { public: true } }
  let page: Promise<DocsPage> | null = null
  // After a failure, the next request tries again.
  const load = () => {
    page ??= makeInThread().catch((error: unknown) => {
      page = null
      throw error
    })
    return page
  }
  app.get(PREFIX, options, (_request, reply) => reply.redirect(PAGE))
  app.get(PAGE, options, async (request, reply) => {
    const { page, policy } = await load()
    return sendStaticFile(request, reply.header('content-security-policy', policy), page)
  })
  app.get(SCRIPT, options, async (request, reply) => sendStaticFile(request, reply, (await load()).script))
}

function makeInThread(): Promise<DocsPage> {
  return new Promise((resolve, reject) => {
    // Node warns that stripping types is experimental. Operators cannot act on that, so it stays out of the log.
    const worker = new Worker(moduleURL('./docs-page-thread.ts', import.meta.url), {
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    worker.once('message', (made: DocsPage) => {
      resolve({ ...made, page: withBuffers(made.page), script: withBuffers(made.script) })
    })
    worker.once('error', reject)
    worker.once('exit', (code) => reject(new Error(`the thread that builds /docs exited with code ${code}`)))
  })
}

/** Buffers become plain arrays of bytes between threads. */
function withBuffers({ body, gzipped, ...file }: StaticFile): StaticFile {
  return { ...file, body: bufferOf(body), gzipped: gzipped && bufferOf(gzipped) }
}

function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}
