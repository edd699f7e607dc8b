/**
 * Collects the named components of an OpenAPI document. A schema with a `title` becomes a component to which all its uses
 * refer, so that generated clients have one type for it.
 */
import { isObject, type JsonObject } from '../../json-object.ts'

/**
 * Keywords whose value is a schema or a list of schemas. `#inline` treats `properties` separately, which has schemas by name.
 */
const SCHEMA_KEYWORDS = ['items', 'additionalProperties', 'anyOf', 'oneOf', 'allOf']
/**
 * `Type.Record` writes an object with arbitrary names with this pattern, but many generators only support
 * `additionalProperties`.
 */
const ANY_NAME = '^.*$'

export class Components {
  readonly schemas: Record<string, JsonObject> = {}
  readonly responses: Record<string, JsonObject> = {}
  readonly headers: Record<string, JsonObject> = {}

  /** Returns the schema as it appears in the document. Throws if two different schemas have the same title. */
  schema(given: JsonObject): JsonObject {
    const { title } = given
    const schema = this.#inline(given)
    if (typeof title !== 'string') return schema
    return this.#named('schemas', title, schema)
  }

  response(name: string, response: JsonObject): JsonObject {
    return this.#named('responses', name, response)
  }

  header(name: string, header: JsonObject): JsonObject {
    return this.#named('headers', name, header)
  }

  #named(kind: 'schemas' | 'responses' | 'headers', name: string, part: JsonObject): JsonObject {
    const known = this[kind][name]
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(part)) {
      throw new Error(`two different ${kind} of the OpenAPI document are named ${name}`)
    }
    this[kind][name] = part
    return { $ref: `#/components/${kind}/${name}` }
  }

  #inline({ title: _title, properties, patternProperties, ...rest }: JsonObject): JsonObject {
    const schema = withoutDefault(rest)
    if (isObject(properties)) schema.properties = mapValues(properties, (value) => this.#any(value))
    if (isObject(patternProperties)) schema.additionalProperties = patternProperties[ANY_NAME]
    for (const keyword of SCHEMA_KEYWORDS) {
      if (schema[keyword] !== undefined) schema[keyword] = this.#any(schema[keyword])
    }
    // Generators for OpenAPI 3.0 do not know `const`, with which the discriminator's values are declared.
    if (schema.const !== undefined) {
      schema.enum = [schema.const]
      delete schema.const
    }
    const { enum: values } = schema
    const areTexts = Array.isArray(values) && values.every((value) => typeof value === 'string')
    return areTexts && schema.type === undefined ? { type: 'string', ...schema } : schema
  }

  #any(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.#any(one))
    return isObject(value) ? this.schema(value) : value
  }
}

/** Moves the default into the description, because openapi-typescript makes a field with a `default` required. */
function withoutDefault({ default: byDefault, ...schema }: JsonObject): Record<string, unknown> {
  if (byDefault === undefined) return schema
  const description = typeof schema.description === 'string' ? `${schema.description} ` : ''
  return { ...schema, description: `${description}Default: ${JSON.stringify(byDefault)}.` }
}

export function mapValues<T>(object: JsonObject, map: (value: unknown) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value)]))
}
