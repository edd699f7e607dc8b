/** The route that returns the effective settings. They cannot be changed here. */
import type { FastifyInstance } from 'fastify'
import Type from 'typebox'
import { sendData } from '../envelope.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { adminErrors, orNull } from './shapes.ts'

const effectiveSettings = Type.Object({
  settings: Type.Object(
    {},
    {
      additionalProperties: true,
      description: 'The settings in the shape of the configuration file, including defaults.',
    },
  ),
  file: orNull(Type.String({ description: 'The configuration file that was read.' })),
  database: Type.String(),
})

export function settingsRoute(app: FastifyInstance, { settingsJson }: AdminContext): void {
  app.get(
    '/settings',
    {
      schema: {
        operationId: 'getSettings',
        summary: 'Show the effective settings, without secrets',
        description: 'Passwords and keys in URLs are masked, and the keys of upstreams are omitted.',
        response: { 200: success('The settings.', effectiveSettings), ...adminErrors() },
      },
    },
    (_request, reply) => sendData(reply, 200, 'The effective settings.', settingsJson),
  )
}
