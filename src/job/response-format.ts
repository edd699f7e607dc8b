/**
 * Takes apart the JSON text of a stored `response_format`, and puts it together, without parsing the schema in it. The options,
 * metadata, trace and record of a job are members of this text, so that they are stored, counted and copied with it.
 */
import { valueEnd } from '../json-text/scan-json.ts'
import type { BatchOfJob } from './job-id.ts'
import { type JobOptions, OPTION_NAMES } from './options.ts'
import type { Metadata } from './request.ts'

export type FormatParts =
  | { readonly kind: 'text' }
  | { readonly kind: 'json' }
  | { readonly kind: 'schema'; readonly schemaJson: string }

export const TEXT_JSON = '{"format":"text"}'
export const TEXT = { kind: 'text' } as const
/** OpenAI's format `json_object` means any object. */
export const ANY_OBJECT = { type: 'object' } as const
export const ANY_OBJECT_JSON = JSON.stringify(ANY_OBJECT)
const ANY_JSON: FormatParts = { kind: 'json' }

/** Callers may write the members in either order. */
const BEFORE_SCHEMA = '{"format":"json","schema":'
const SCHEMA_FIRST = '{"schema":'
const AFTER_SCHEMA = ',"format":"json"}'

/** The text may contain everything that `withOptions`, `withRecord`, `withTraceparent` and `withMetadata` add. */
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

/** @param formatJson an accepted `response_format` as `JSON.stringify` writes it */
export function withOptions(formatJson: string, options: JobOptions): string {
  const given = OPTION_NAMES.filter((name) => options[name] !== undefined && !isEmpty(options[name]))
  if (given.length === 0) return formatJson
  const optionsJson = JSON.stringify(Object.fromEntries(given.map((name) => [name, options[name]])))
  return `${BEFORE}${optionsJson},${formatJson.slice(1)}`
}

const isEmpty = (value: unknown) => Array.isArray(value) && value.length === 0

const BEFORE = '{"options":'

/** A text with a record starts with this, unless it has metadata or a trace. */
export const BEFORE_RECORD = '{"request":'

export const BEFORE_METADATA = '{"metadata":'

/**
 * A record is what an API must remember of the request to show it to the caller again. It does not affect how the job runs.
 * @param storedJson the result of `withOptions`
 */
export function withRecord(storedJson: string, recordJson: string): string {
  return `${BEFORE_RECORD}${recordJson},${storedJson.slice(1)}`
}

export function withBatch(recordJson: string | undefined, batch: BatchOfJob): string {
  const json = `{"batch":${JSON.stringify(batch)}}`
  return recordJson === undefined ? json : `${json.slice(0, -1)},${recordJson.slice(1)}`
}

export function batchOf(storedJson: string): BatchOfJob | null {
  const { recordJson } = splitRecord(storedJson)
  return recordJson === null ? null : (JSON.parse(recordJson).batch ?? null)
}

/** A text with a trace starts with this, unless it has metadata. */
export const BEFORE_TRACE = '{"traceparent":'

/** Only metadata comes before the trace. */
export function withTraceparent(storedJson: string, traceparent: string): string {
  return `${BEFORE_TRACE}${JSON.stringify(traceparent)},${storedJson.slice(1)}`
}

export function traceparentOf(storedJson: string): string | null {
  if (storedJson === TEXT_JSON) return null
  const [traceJson] = splitFirst(splitFirst(storedJson, BEFORE_METADATA)[1], BEFORE_TRACE)
  return traceJson === null ? null : JSON.parse(traceJson)
}

export function withMetadata(storedJson: string, metadata: Metadata): string {
  return `${BEFORE_METADATA}${JSON.stringify(metadata)},${storedJson.slice(1)}`
}

/** `othersJson` also lacks the trace. Without metadata, `metadataJson` is null. */
export function splitMetadata(storedJson: string): {
  readonly metadataJson: string | null
  readonly othersJson: string
} {
  const [metadataJson, restJson] = splitFirst(storedJson, BEFORE_METADATA)
  return { metadataJson, othersJson: splitFirst(restJson, BEFORE_TRACE)[1] }
}

/** Metadata ends within this many characters, because JSON writes each of its characters as at most six. */
export const METADATA_CHARS = 16 * (64 + 512) * 6 + 1000

/** Stored metadata with this pair contains the text, and other metadata hardly ever does. */
export function pairText([key, value]: readonly [string, string]): string {
  return `${JSON.stringify(key)}:${JSON.stringify(value)}`
}

/** @param storedJson at least the first `METADATA_CHARS` characters of the stored text */
export function hasMetadata(storedJson: string, pairs: Metadata): boolean {
  const { metadataJson } = splitMetadata(storedJson)
  if (metadataJson === null) return false
  const stored: Metadata = JSON.parse(metadataJson)
  return Object.entries(pairs).every(([key, value]) => Object.hasOwn(stored, key) && stored[key] === value)
}

/** `restJson` also lacks metadata and trace. Without a record, `recordJson` is null. */
export function splitRecord(storedJson: string): {
  readonly recordJson: string | null
  readonly restJson: string
} {
  const [recordJson, restJson] = splitFirst(splitMetadata(storedJson).othersJson, BEFORE_RECORD)
  return { recordJson, restJson }
}

/** `formatJson` has no added member. Without options, `optionsJson` is null. */
export function splitOptions(storedJson: string): {
  readonly optionsJson: string | null
  readonly formatJson: string
} {
  const [optionsJson, formatJson] = splitFirst(splitRecord(storedJson).restJson, BEFORE)
  return { optionsJson, formatJson }
}

/** Returns the value of the first member, and the rest of the text. If another member comes first, the value is null. */
function splitFirst(json: string, before: string): [string | null, string] {
  if (!json.startsWith(before)) return [null, json]
  const end = valueEnd(json, before.length)
  // The rest starts after the comma that follows the value.
  return [json.slice(before.length, end), `{${json.slice(end + 1)}`]
}
