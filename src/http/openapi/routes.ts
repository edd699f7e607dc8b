/**
 * Serves the OpenAPI documents, and the page /docs that shows them. They are public, because they contain nothing that is not
 * in the source code. The page is built on a thread at the first request, because loading its package would block the event
 * loop for more than 100 ms.
 */
import '../request-context.ts'
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../envelope.ts'
import { builtOnThread, DOCS, DOCS_PAGE, DOCS_SCRIPT, type DocsPage } from '../page-thread.ts'
import { bufferOf, createStaticFile, type StaticFile, sendStaticFile } from '../static-file.ts'
import {
  buildDocument,
  type DeclaredOperation,
  type DocumentOptions,
  declaredOperations,
  jobEndedWebhook,
} from './build-document.ts'

/** Callers with an API key use the routes below this path. */
const CALLERS = '/api/'

const DOCUMENTS = {
  callers: '/openapi.json',
  operators: '/admin/api/openapi.json',
} as const

const CALLERS_DOCUMENT = {
  title: 'Parley',
  description: `Runs AI message jobs. Send a conversation, and get the answer in the same response, by polling, or by a signed callback.

\`timeout\` is only for a single job; \`callback\` is only for batches. The admin API has its own document at \`${DOCUMENTS.operators}\`.`,
  tags: [
    { name: 'Jobs', description: 'Create jobs and get their answers.' },
    { name: 'Account', description: 'Your tier, limits and usage.' },
  ],
  securitySchemes: {
    apiKey: {
      type: 'apiKey',
      in: 'header',
      name: 'x-api-key',
      description: 'An API key of your account, issued by the operators of the service.',
    },
  },
  webhooks: { jobEnded: jobEndedWebhook },
}

const OPERATORS_DOCUMENT = {
  title: 'Parley: admin API',
  description: `For operators of Parley: the admin API, which the dashboard uses, and the routes for monitoring. The API for callers is described at \`${DOCUMENTS.callers}\`.`,
  tags: [
    { name: 'Admin', description: 'Inspect and control the service, with an admin token.' },
    { name: 'Operations', description: 'Health and metrics.' },
  ],
  securitySchemes: {
    adminToken: { type: 'http', scheme: 'bearer', description: 'The admin token of the server.' },
  },
}

/** The paths of the other API share this prefix. */
export interface ApiDocument extends Omit<DocumentOptions, 'version' | 'operations'> {
  readonly path: string
  readonly prefix: string
}

/** Call this before other routes are declared, because the documents contain only routes that are declared later. */
export function openapiRoutes(app: FastifyInstance, version: string, other: ApiDocument): void {
  const operations = declaredOperations(app)
  const isForCallers = ({ path }: DeclaredOperation) => path.startsWith(CALLERS)
  serveDocument(app, DOCUMENTS.callers, () => ({
    ...CALLERS_DOCUMENT,
    version,
    operations: operations().filter(isForCallers),
  }))
  const isOther = ({ path }: DeclaredOperation) => path.startsWith(other.prefix)
  serveDocument(app, other.path, () => {
    const { path: _path, prefix: _prefix, ...document } = other
    return { ...document, version, operations: operations().filter(isOther) }
  })
  serveDocument(app, DOCUMENTS.operators, () => ({
    ...OPERATORS_DOCUMENT,
    version,
    operations: operations().filter((operation) => !isForCallers(operation) && !isOther(operation)),
  }))
  serveDocsPage(app)
}

function serveDocument(app: FastifyInstance, path: string, options: () => DocumentOptions): void {
  let file: Promise<StaticFile> | undefined
  app.get(path, { config: { public: true } }, async (request, reply) => {
    file ??= createStaticFile(JSON_TYPE, Buffer.from(JSON.stringify(buildDocument(options()))))
    return sendStaticFile(request, reply, await file)
  })
}

function serveDocsPage(app: FastifyInstance): void {
  const options = { config: { public: true } }
  const load = builtOnThread<DocsPage>('/docs', DOCS)
  app.get(DOCS, options, (_request, reply) => reply.redirect(DOCS_PAGE))
  app.get(DOCS_PAGE, options, async (request, reply) => {
    const { page, policy } = await load()
    return sendStaticFile(request, reply.header('content-security-policy', policy), withBuffers(page))
  })
  app.get(DOCS_SCRIPT, options, async (request, reply) =>
    sendStaticFile(request, reply, withBuffers((await load()).script)),
  )
}

function withBuffers({ body, gzipped, ...file }: StaticFile): StaticFile {
  return { ...file, body: bufferOf(body), gzipped: gzipped && bufferOf(gzipped) }
}
