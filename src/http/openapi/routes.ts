/**
 * The two OpenAPI documents, generated from the routes themselves, and GET /docs, a page that shows them. `/openapi.json` is
 * for callers, `/admin/api/openapi.json` for operators. Both are public, because they contain nothing that is not in the
 * source code.
 */
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../envelope.ts'
import '../request-context.ts'
import { createStaticFile, type StaticFile, sendStaticFile } from '../static-file.ts'
import { buildDocument, type DocumentOptions } from './build-document.ts'
import { type DeclaredOperation, declaredOperations } from './declared-operations.ts'
import { serveDocsPage } from './docs-page.ts'
import { jobEndedWebhook } from './webhooks.ts'

/** The routes below this path are for callers, who have an API key. */
const CALLERS = '/api/'

export const DOCUMENTS = {
  callers: '/openapi.json',
  operators: '/admin/api/openapi.json',
} as const

const CALLERS_DOCUMENT = {
  title: 'Parley',
  description: `Runs AI message jobs. Send a conversation, and get the answer in the same response, by polling, or by a signed callback.

\`timeout\` is only for single creates; \`callback\` is only for batches. The admin API has its own document at \`${DOCUMENTS.operators}\`.`,
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
    { name: 'Admin', description: 'Inspect and control the service. One token grants access to all of it.' },
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

/** Each document is built at its first request. */
function serveDocument(app: FastifyInstance, path: string, options: () => DocumentOptions): void {
  let file: Promise<StaticFile> | undefined
  app.get(path, { config: { public: true } }, async (request, reply) => {
    file ??= createStaticFile(JSON_TYPE, Buffer.from(JSON.stringify(buildDocument(options()))))
    return sendStaticFile(request, reply, await file)
  })
}
