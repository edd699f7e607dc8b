/** Which draft of JSON Schema a schema is written in, as far as drafts disagree about what a keyword means. */
import type { SchemaSource } from './answer-schema.ts'

export interface Dialect {
  /** Up to draft-07, keywords next to a `$ref` have no effect. */
  readonly refStandsAlone: boolean
  /** The keyword that gives a schema an address: `id` in draft-04. */
  readonly idKeyword: '$id' | 'id'
  /** Whether `$schema` names a draft, or is missing: any other is read as the newest draft. */
  readonly isKnown: boolean
}

const DRAFT = /^https?:\/\/json-schema\.org\/(?:draft-0([34567])\/|draft\/(?:2019-09|2020-12)\/)?schema#?$/

/** Without `$schema`, the newest draft; the spellings of older ones are understood in any. */
export function dialectOf({ $schema }: SchemaSource): Dialect {
  const named = typeof $schema === 'string' ? DRAFT.exec($schema) : null
  const old = named?.[1]
  return {
    refStandsAlone: old !== undefined,
    idKeyword: old === '3' || old === '4' ? 'id' : '$id',
    isKnown: $schema === undefined || named !== null,
  }
}
