/** Converts query parameters from text to what the route's schema declares, before validation. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import './request-context.ts'

/** A member of an object, such as `metadata[customer]=acme`. */
const MEMBER = /^(\w+)\[(.*)\]$/s
const NUMBER = /^-?\d{1,15}(\.\d{1,9})?$/

type Properties = Readonly<Record<string, { readonly type?: string }>>

/**
 * A `preValidation` hook. Commas separate the values of a list; a list that is repeated is joined.
 * `NAME[KEY]=VALUE` is a member of an object.
 */
export function convertQuery(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const given = request.query as Record<string, unknown>
  const names = Object.keys(given)
  // Most requests have no query.
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
  // A text given under the object's own name stays, so that validation rejects it.
  if (typeof earlier === 'string') return
  const members = (earlier ?? Object.create(null)) as Record<string, unknown>
  members[key] = given[name]
  given[object] = members
  delete given[name]
}
