/** Converts query parameters to the types in the route's schema, before they are validated. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import './request-context.ts'

/** Matches `metadata[customer]=acme`, a member of an object. */
const MEMBER = /^(\w+)\[(.*)\]$/s
const NUMBER = /^-?\d{1,15}(\.\d{1,9})?$/

type Properties = Readonly<Record<string, { readonly type?: string }>>

/** This `preValidation` hook splits the values of lists at commas, and joins repeated parameters. */
export function convertQuery(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const given = request.query as Record<string, unknown>
  const names = Object.keys(given)
  if (names.length > 0) {
    const schema = request.route.schema?.querystring as { readonly properties?: Properties } | undefined
    for (const name of names) {
      const value = given[name]
      if (name.endsWith(']')) takeMember(given, name, schema?.properties)
      const type = schema?.properties?.[name]?.type
      if (type === 'array') given[name] = [value].flat().flatMap((text) => String(text).split(','))
      else if ((type === 'number' || type === 'integer') && typeof value === 'string' && NUMBER.test(value)) {
        given[name] = Number(value)
      }
    }
  }
  done()
}

function takeMember(given: Record<string, unknown>, name: string, properties: Properties = {}): void {
  const [, object = '', key = ''] = MEMBER.exec(name) ?? []
  if (!Object.hasOwn(properties, object) || properties[object]?.type !== 'object') return
  const earlier = given[object]
  // A parameter that is also given without a key stays a text, so that validation rejects it.
  if (typeof earlier === 'string') return
  const members = (earlier ?? Object.create(null)) as Record<string, unknown>
  members[key] = given[name]
  given[object] = members
  delete given[name]
}
