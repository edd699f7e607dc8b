/** The parts of a stored `response_format`, taken out of its JSON text without parsing the schema in it. */
import { valueEnd } from '../json-text/scan-json.ts'
import type { BatchOfJob } from './batch-id.ts'
import { type JobOptions, OPTION_NAMES } from './options.ts'
import type { Metadata } from './request.ts'

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

/** @param storedJson as `withOptions`, `withRecord`, `withTraceparent` and `withMetadata` write an accepted `response_format` */
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

/** What the stored `response_format` of a job with a record, and neither metadata nor a trace, begins with. */
export const BEFORE_RECORD = '{"request":'

/** What the stored `response_format` of a job with metadata begins with. */
export const BEFORE_METADATA = '{"metadata":'

/**
 * Adds what an API must remember of the request that created the job, to show it to the caller again. It changes nothing
 * about how the job runs.
 * @param storedJson as `withOptions` writes it
 * @param recordJson an object
 */
export function withRecord(storedJson: string, recordJson: string): string {
  return `${BEFORE_RECORD}${recordJson},${storedJson.slice(1)}`
}

/** Adds the batch to a record, or makes one. */
export function withBatch(recordJson: string | undefined, batch: BatchOfJob): string {
  const json = `{"batch":${JSON.stringify(batch)}}`
  return recordJson === undefined ? json : `${json.slice(0, -1)},${recordJson.slice(1)}`
}

/** Null if the job is not a line of a batch. */
export function batchOf(storedJson: string): BatchOfJob | null {
  const { recordJson } = splitRecord(storedJson)
  return recordJson === null ? null : (JSON.parse(recordJson).batch ?? null)
}

/** What the stored `response_format` of a job with a trace and no metadata begins with. */
export const BEFORE_TRACE = '{"traceparent":'

/** Adds the trace that the job continues, before everything but metadata. */
export function withTraceparent(storedJson: string, traceparent: string): string {
  return `${BEFORE_TRACE}${JSON.stringify(traceparent)},${storedJson.slice(1)}`
}

/** The trace that the job continues; null if it stores none. */
export function traceparentOf(storedJson: string): string | null {
  if (storedJson === TEXT_JSON) return null
  const [traceJson] = splitFirst(splitFirst(storedJson, BEFORE_METADATA)[1], BEFORE_TRACE)
  return traceJson === null ? null : JSON.parse(traceJson)
}

/** Adds metadata to a stored `response_format`, before everything else. */
export function withMetadata(storedJson: string, metadata: Metadata): string {
  return `${BEFORE_METADATA}${JSON.stringify(metadata)},${storedJson.slice(1)}`
}

/** The metadata, null if the job has none, and what the job would store without it and without a trace. */
export function splitMetadata(storedJson: string): {
  readonly metadataJson: string | null
  readonly othersJson: string
} {
  const [metadataJson, restJson] = splitFirst(storedJson, BEFORE_METADATA)
  return { metadataJson, othersJson: splitFirst(restJson, BEFORE_TRACE)[1] }
}

/** The record, null if the job has none, and what follows it. */
export function splitRecord(storedJson: string): {
  readonly recordJson: string | null
  readonly restJson: string
} {
  const [recordJson, restJson] = splitFirst(splitMetadata(storedJson).othersJson, BEFORE_RECORD)
  return { recordJson, restJson }
}

/** The format and the options of a stored `response_format`; `optionsJson` is null if the job has no options. */
export function splitOptions(storedJson: string): {
  readonly optionsJson: string | null
  readonly formatJson: string
} {
  const [optionsJson, formatJson] = splitFirst(splitRecord(storedJson).restJson, BEFORE)
  return { optionsJson, formatJson }
}

/** The first member's value and the text without this member; null if the text begins with another one. */
function splitFirst(json: string, before: string): [string | null, string] {
  if (!json.startsWith(before)) return [null, json]
  const end = valueEnd(json, before.length)
  // After the comma that follows the value.
  return [json.slice(before.length, end), `{${json.slice(end + 1)}`]
}
