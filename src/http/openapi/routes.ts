/** GET /openapi.json, generated from the routes themselves, and GET /docs, a page to read it. */
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../envelope.ts'
import '../request-context.ts'
import { createStaticFile, type StaticFile, sendStaticFile } from '../static-file.ts'
import { serveDocsPage } from './docs-page.ts'

const ABOUT = `Runs AI message jobs: send a conversation, and get the answer in the same response, by polling, or by a signed callback.

\`timeout\` belongs to single creates; \`callback\` belongs to batches.`

/** Call this before the routes are declared, so that it sees all of them. */
export async function openapiRoutes(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Parley', description: ABOUT, version },
      components: {
        securitySchemes: {
          apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
          adminToken: { type: 'http', scheme: 'bearer', description: 'The admin token of the server.' },
        },
      },
    },
    transformObject: (documented) => {
      if (!('openapiObject' in documented)) return documented.swaggerObject
      markRequiredBodies(documented.openapiObject.paths ?? {})
      return documented.openapiObject
    },
  })
  let file: Promise<StaticFile> | undefined
  app.get('/openapi.json', { config: { public: true }, schema: { hide: true } }, async (request, reply) => {
    file ??= createStaticFile(JSON_TYPE, Buffer.from(JSON.stringify(app.swagger())))
    return sendStaticFile(request, reply, await file)
  })
  serveDocsPage(app)
}

interface Body {
  required?: boolean
  readonly content: Readonly<Record<string, { readonly schema?: object }>>
}

/** The plugin marks every body as required; here an object without required fields may be left out. */
function markRequiredBodies(paths: Readonly<Record<string, object | undefined>>): void {
  for (const methods of Object.values(paths)) {
    for (const { requestBody } of Object.values<{ requestBody?: Body }>({ ...methods })) {
      const schema = requestBody?.content['application/json']?.schema
      if (requestBody && schema && 'properties' in schema) requestBody.required = 'required' in schema
    }
  }
}
