/** The OpenAPI document, made from the routes themselves, and a page to read it. */
import swagger from '@fastify/swagger'
import apiReference from '@scalar/fastify-api-reference'
import type { FastifyInstance } from 'fastify'
import './request-context.ts'

const ABOUT = `Runs AI message jobs: send a conversation, and get the answer in the same response, by polling, or by a signed callback.

\`timeout\` belongs to single creates; \`callback\` belongs to batches.`

/** To be called before the routes are declared, so that it sees them all. */
export async function documentRoutes(app: FastifyInstance, version: string): Promise<void> {
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
  })
  app.get('/openapi.json', { config: { public: true }, schema: { hide: true } }, () => app.swagger())
  await app.register((scope, _options, done) => {
    scope.addHook('onRoute', (route) => {
      route.config = { ...route.config, public: true }
      route.schema = { ...route.schema, hide: true }
    })
    void scope.register(apiReference, {
      routePrefix: '/docs',
      configuration: {
        url: '/openapi.json',
        withDefaultFonts: false,
        telemetry: false,
        hideClientButton: true,
        persistAuth: false,
      },
    })
    done()
  })
}
