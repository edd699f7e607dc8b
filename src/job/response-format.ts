/** The parts of a stored `response_format`, taken out of its JSON text without parsing the schema in it. */
import { stringEnd, valueEnd } from '../json-text/scan-json.ts'
import { type JobOptions, OPTION_NAMES } from './options.ts'

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

/** @param storedJson as `withOptions` writes an accepted `response_format` */
export function formatParts(storedJson: string): FormatParts {
  if (storedJson === TEXT_JSON) return TEXT
  const json = splitOptions(storedJson).formatJson
  if (json === TEXT_JSON) return TEXT
  if (json.startsWith(BEFORE_SCHEMA)) {
    return { kind: 'schema', schemaJson: json.slice(BEFORE_SCHEMA.length, -1) }
  }
  if (json.startsWith(SCHEMA_FIRST)) {
    return { kind: 'schema', schemaJson: json.slice(SCHEMA_FIRST.length, -AFTER_SCHEMA.length) }
  }
  return ANY_JSON
}

/**
 * A `response_format` as jobs store it: with the options, if there are any, before its other members, in their order. So
 * whatever keeps, counts, compares or copies the one text does so with both.
 * @param formatJson an accepted `response_format` as `JSON.stringify` writes it
 */
export function withOptions(formatJson: string, options: JobOptions): string {
  const given = OPTION_NAMES.filter((name) => options[name] !== undefined && !isEmpty(options[name]))
  if (given.length === 0) return formatJson
  const optionsJson = JSON.stringify(Object.fromEntries(given.map((name) => [name, options[name]])))
  return `${BEFORE}${optionsJson},${formatJson.slice(1)}`
}

const isEmpty = (value: unknown) => Array.isArray(value) && value.length === 0

const BEFORE = '{"options":'

const BEFORE_RECORD = '{"request":'

/**
 * Adds what an API must remember of the request that created the job, to show it to the caller again. It changes nothing
 * about how the job runs.
 * @param storedJson as `withOptions` writes it
 * @param recordJson an object
 */
export function withRecord(storedJson: string, recordJson: string): string {
  return `${BEFORE_RECORD}${recordJson},${storedJson.slice(1)}`
}

/** The two parts of what `withRecord` writes; `recordJson` is null if the job has no record. */
export function splitRecord(storedJson: string): {
  readonly recordJson: string | null
  readonly restJson: string
} {
  if (!storedJson.startsWith(BEFORE_RECORD)) return { recordJson: null, restJson: storedJson }
  const end = valueEnd(storedJson, BEFORE_RECORD.length)
  return {
    recordJson: storedJson.slice(BEFORE_RECORD.length, end),
    // After the comma that follows the record.
    restJson: `{${storedJson.slice(end + 1)}`,
  }
}

/** The format and the options of a stored `response_format`; `optionsJson` is null if the job has no options. */
export function splitOptions(json: string): {
  readonly optionsJson: string | null
  readonly formatJson: string
} {
  const storedJson = json.startsWith(BEFORE_RECORD) ? splitRecord(json).restJson : json
  if (!storedJson.startsWith(BEFORE)) return { optionsJson: null, formatJson: storedJson }
  let end = BEFORE.length
  while (storedJson[end] !== '}') end = (storedJson[end] === '"' ? stringEnd(storedJson, end + 1) : end) + 1
  return {
    optionsJson: storedJson.slice(BEFORE.length, end + 1),
    // After the comma that follows the options.
    formatJson: `{${storedJson.slice(end + 2)}`,
  }
}
