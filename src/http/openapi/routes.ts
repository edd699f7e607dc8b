/**
 * The two OpenAPI documents, generated from the routes themselves, and GET /docs, a page to read them. `/openapi.json` has what
 * callers use, `/admin/api/openapi.json` what operators use. Both are public, as both were in one document before: they say
 * nothing that the source does not say.
 */
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../envelope.ts'
import '../request-context.ts'
import { createStaticFile, type StaticFile, sendStaticFile } from '../static-file.ts'
import { buildDocument, type DocumentOptions } from './build-document.ts'
import { type DeclaredOperation, declaredOperations } from './declared-operations.ts'
import { serveDocsPage } from './docs-page.ts'
import { jobEndedWebhook } from './webhooks.ts'

/** What is below is for callers, who have an API key. */
const CALLERS = '/api/'

export const DOCUMENTS = {
  callers: '/openapi.json',
  operators: '/admin/api/openapi.json',
} as const

const CALLERS_DOCUMENT = {
  title: 'Parley',
  description: `Runs AI message jobs: send a conversation, and get the answer in the same response, by waiting for it later, or by a signed callback.

\`timeout\` belongs to single creates; \`callback\` belongs to batches. The admin API has a document of its own at \`${DOCUMENTS.operators}\`.`,
  tags: [
    { name: 'Jobs', description: 'Create jobs, and get their answers.' },
    { name: 'Account', description: 'What applies to your API key.' },
  ],
  securitySchemes: {
    apiKey: {
      type: 'apiKey',
      in: 'header',
      name: 'x-api-key',
      description: 'An API key of your account. The operators of the service issue it.',
    },
  },
  webhooks: { jobEnded: jobEndedWebhook },
}

const OPERATORS_DOCUMENT = {
  title: 'Parley: admin API',
  description: `What operators of Parley use: the admin API, which the dashboard calls, and the routes that monitoring calls. What callers use is at \`${DOCUMENTS.callers}\`.`,
  tags: [
    { name: 'Admin', description: 'See and change what the service does. One token opens all of it.' },
    { name: 'Operations', description: 'Health and metrics.' },
  ],
  securitySchemes: {
    adminToken: { type: 'http', scheme: 'bearer', description: 'The admin token of the server.' },
  },
}

/** Call this before the routes are declared, so that it sees all of them. */
export function openapiRoutes(app: FastifyInstance, version: string): void {
  const operations = declaredOperations(app)
  const isForCallers = ({ path }: DeclaredOperation) => path.startsWith(CALLERS)
  serveDocument(app, DOCUMENTS.callers, () => ({
    ...CALLERS_DOCUMENT,
    version,
    operations: operations().filter(isForCallers),
  }))
  serveDocument(app, DOCUMENTS.operators, () => ({
    ...OPERATORS_DOCUMENT,
    version,
    operations: operations().filter((operation) => !isForCallers(operation)),
  }))
  serveDocsPage(app)
}

/** The document is built at its first request. */
function serveDocument(app: FastifyInstance, path: string, options: () => DocumentOptions): void {
  let file: Promise<StaticFile> | undefined
  app.get(path, { config: { public: true } }, async (request, reply) => {
    file ??= createStaticFile(JSON_TYPE, Buffer.from(JSON.stringify(buildDocument(options()))))
    return sendStaticFile(request, reply, await file)
  })
}
