/**
 * Takes apart the JSON text of a stored `response_format` without parsing the schema in it, and puts it together. The options,
 * metadata, trace and record of a job are members of this text, so that they are stored, counted and copied with it.
 */
import { valueEnd } from '../json-text/scan-json.ts'
import type { BatchOfJob } from './job-id.ts'
import { type JobOptions, OPTION_NAMES } from './options.ts'
import type { Metadata } from './request.ts'

export type FormatParts =
  | { readonly kind: 'text' }
  /** Any JSON value is valid. */
  | { readonly kind: 'json' }
  | { readonly kind: 'schema'; readonly schemaJson: string }

export const TEXT_JSON = '{"format":"text"}'
export const TEXT = { kind: 'text' } as const
/** The schema of any object, which is what OpenAI's format `json_object` means. */
export const ANY_OBJECT = { type: 'object' } as const
export const ANY_OBJECT_JSON = JSON.stringify(ANY_OBJECT)
const ANY_JSON: FormatParts = { kind: 'json' }

/** Callers may write the members in either order. */
const BEFORE_SCHEMA = '{"format":"json","schema":'
const SCHEMA_FIRST = '{"schema":'
const AFTER_SCHEMA = ',"format":"json"}'

/**
 * @param storedJson a stored `response_format`, as `withOptions`, `withRecord`, `withTraceparent` and `withMetadata` write it
 */
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
 * Adds the options, if any, as the first member.
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

/** The start of a text with a record, but without metadata or a trace. */
export const BEFORE_RECORD = '{"request":'

export const BEFORE_METADATA = '{"metadata":'

/**
 * Adds a record: what an API must remember of the request to show it to the caller again. The record does not affect how the
 * job runs.
 * @param storedJson the result of `withOptions`
 * @param recordJson a JSON object
 */
export function withRecord(storedJson: string, recordJson: string): string {
  return `${BEFORE_RECORD}${recordJson},${storedJson.slice(1)}`
}

export function withBatch(recordJson: string | undefined, batch: BatchOfJob): string {
  const json = `{"batch":${JSON.stringify(batch)}}`
  return recordJson === undefined ? json : `${json.slice(0, -1)},${recordJson.slice(1)}`
}

/** Returns null if the job is not a line of a batch. */
export function batchOf(storedJson: string): BatchOfJob | null {
  const { recordJson } = splitRecord(storedJson)
  return recordJson === null ? null : (JSON.parse(recordJson).batch ?? null)
}

/** The start of a text with a trace, but without metadata. */
export const BEFORE_TRACE = '{"traceparent":'

/** Adds the W3C trace to which the job belongs. Only metadata comes before it. */
export function withTraceparent(storedJson: string, traceparent: string): string {
  return `${BEFORE_TRACE}${JSON.stringify(traceparent)},${storedJson.slice(1)}`
}

/** Returns null if no trace is stored. */
export function traceparentOf(storedJson: string): string | null {
  if (storedJson === TEXT_JSON) return null
  const [traceJson] = splitFirst(splitFirst(storedJson, BEFORE_METADATA)[1], BEFORE_TRACE)
  return traceJson === null ? null : JSON.parse(traceJson)
}

/** Adds metadata as the first member. */
export function withMetadata(storedJson: string, metadata: Metadata): string {
  return `${BEFORE_METADATA}${JSON.stringify(metadata)},${storedJson.slice(1)}`
}

/** Returns the metadata (null if there is none), and the text without metadata and trace. */
export function splitMetadata(storedJson: string): {
  readonly metadataJson: string | null
  readonly othersJson: string
} {
  const [metadataJson, restJson] = splitFirst(storedJson, BEFORE_METADATA)
  return { metadataJson, othersJson: splitFirst(restJson, BEFORE_TRACE)[1] }
}

/** Metadata ends within this many characters of the text, because JSON writes each of its characters as at most six. */
export const METADATA_CHARS = 16 * (64 + 512) * 6 + 1000

/** Returns a text that the stored metadata contains if it has this pair, and hardly ever otherwise. */
export function pairText([key, value]: readonly [string, string]): string {
  return `${JSON.stringify(key)}:${JSON.stringify(value)}`
}

/** @param storedJson at least the first `METADATA_CHARS` characters of a stored `response_format` */
export function hasMetadata(storedJson: string, pairs: Metadata): boolean {
  const { metadataJson } = splitMetadata(storedJson)
  if (metadataJson === null) return false
  const stored: Metadata = JSON.parse(metadataJson)
  return Object.entries(pairs).every(([key, value]) => Object.hasOwn(stored, key) && stored[key] === value)
}

/** Returns the record (null if there is none), and the text without metadata, trace and record. */
export function splitRecord(storedJson: string): {
  readonly recordJson: string | null
  readonly restJson: string
} {
  const [recordJson, restJson] = splitFirst(splitMetadata(storedJson).othersJson, BEFORE_RECORD)
  return { recordJson, restJson }
}

/** Returns the options (null if there are none), and the format without any added member. */
export function splitOptions(storedJson: string): {
  readonly optionsJson: string | null
  readonly formatJson: string
} {
  const [optionsJson, formatJson] = splitFirst(splitRecord(storedJson).restJson, BEFORE)
  return { optionsJson, formatJson }
}

/**
 * Returns the value of the first member, and the text without this member. The value is null if the first member is another
 * one.
 */
function splitFirst(json: string, before: string): [string | null, string] {
  if (!json.startsWith(before)) return [null, json]
  const end = valueEnd(json, before.length)
  // Skips the comma after the value.
  return [json.slice(before.length, end), `{${json.slice(end + 1)}`]
}
