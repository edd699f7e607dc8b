/** The settings in force, to be read only. */
import type { FastifyInstance } from 'fastify'
import Type from 'typebox'
import { sendData } from '../envelope.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminParts } from './admin-parts.ts'
import { adminErrors, orNull } from './shapes.ts'

const inForce = Type.Object({
  settings: Type.Object(
    {},
    { additionalProperties: true, description: 'As in the configuration file, defaults included.' },
  ),
  file: orNull(Type.String({ description: 'The configuration file that was read.' })),
  database: Type.String(),
})

export function settingsRoute(app: FastifyInstance, { settingsJson }: AdminParts): void {
  app.get(
    '/settings',
    {
      schema: {
        summary: 'The settings in force, without secrets',
        response: { 200: success('The settings.', inForce), ...adminErrors() },
      },
    },
    (_request, reply) => sendData(reply, 200, 'These settings are in force.', settingsJson),
  )
}
