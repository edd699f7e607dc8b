/** The parts of a stored `response_format`, taken out of its JSON text without parsing the schema in it. */

export type FormatParts =
  | { readonly kind: 'text' }
  /** Any JSON value. */
  | { readonly kind: 'json' }
  | { readonly kind: 'schema'; readonly schemaJson: string }

/** The usual format. */
export const TEXT_JSON = '{"format":"text"}'
export const TEXT = { kind: 'text' } as const
const ANY_JSON: FormatParts = { kind: 'json' }

/** Callers write the two members in either order. */
const BEFORE_SCHEMA = '{"format":"json","schema":'
const SCHEMA_FIRST = '{"schema":'
const AFTER_SCHEMA = ',"format":"json"}'

/** @param json as `JSON.stringify` writes an accepted `response_format` */
export function formatParts(json: string): FormatParts {
  if (json === TEXT_JSON) return TEXT
  if (json.startsWith(BEFORE_SCHEMA)) {
    return { kind: 'schema', schemaJson: json.slice(BEFORE_SCHEMA.length, -1) }
  }
  if (json.startsWith(SCHEMA_FIRST)) {
    return { kind: 'schema', schemaJson: json.slice(SCHEMA_FIRST.length, -AFTER_SCHEMA.length) }
  }
  return ANY_JSON
}
