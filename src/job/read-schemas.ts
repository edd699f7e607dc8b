/**
 * Reads callers' schemas, and remembers the latest ones by their text: jobs of an account often share a schema, and reading it
 * takes longer than checking a short answer.
 */
import { type AnswerSchema, meetsStrictRules, type ReadSchemaResult, readSchema } from 'parley-json-schema'
import type { SchemaObject } from './job.ts'

/**
 * Together, the texts of the remembered schemas have at most this many characters, unless there is only one. The parsed schemas
 * take about twenty times as much memory.
 */
const MAX_REMEMBERED = 512 * 1024

export interface SchemaFacts {
  /** True if the schema meets the rules of OpenAI's strict structured outputs. */
  readonly strict: boolean
  /** True if the schema itself has the type `object`, so that every valid answer is an object. */
  readonly isObject: boolean
  readonly ignored?: readonly string[]
}

interface ReadText {
  readonly result: ReadSchemaResult
  facts: SchemaFacts | null
}

/** The least recently used schema comes first. */
const remembered = new Map<string, ReadText>()
let characters = 0

/** @param parsed the parsed schema, if the caller has it; it must not change afterwards */
export function readSchemaText(schemaJson: string, parsed?: SchemaObject): ReadSchemaResult {
  return readText(schemaJson, parsed).result
}

/** Throws if an earlier version accepted a schema that this version rejects. */
export function acceptedSchema(schemaJson: string): AnswerSchema {
  const { result } = readText(schemaJson)
  if (!result.ok) throw new Error(`the job's schema is rejected: ${result.path} ${result.rule}`)
  return result.schema
}

export function schemaFacts(schemaJson: string): SchemaFacts {
  const schema = acceptedSchema(schemaJson)
  const read = readText(schemaJson)
  const { pointers } = schema.ignored
  read.facts ??= {
    strict: meetsStrictRules(schema),
    isObject: schema.source.type === 'object',
    ...(pointers.length > 0 && { ignored: pointers }),
  }
  return read.facts
}

function readText(schemaJson: string, parsed?: SchemaObject): ReadText {
  let read = remembered.get(schemaJson)
  if (read === undefined) {
    read = { result: readSchema(parsed ?? JSON.parse(schemaJson)), facts: null }
    characters += schemaJson.length
  } else remembered.delete(schemaJson)
  remembered.set(schemaJson, read)
  for (const oldest of remembered.keys()) {
    if (characters <= MAX_REMEMBERED || remembered.size === 1) break
    remembered.delete(oldest)
    characters -= oldest.length
  }
  return read
}
