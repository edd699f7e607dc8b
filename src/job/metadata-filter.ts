/** Filters jobs in lists and searches by their metadata. */
import { Type } from '../typed-schema.ts'
import { METADATA_BOUNDS, type Metadata } from './request.ts'
import { splitMetadata } from './response-format.ts'

/** The query parameter. `convertQuery` assembles it from several parameters. */
export const metadataFilter = Type.Optional(
  Type.Record(METADATA_BOUNDS.value, {
    ...METADATA_BOUNDS.pairs,
    description: 'Only jobs whose `metadata` has all of these pairs, such as `metadata[customer]=acme`.',
    examples: [{ customer: 'acme' }],
  }),
)

/** How many characters of a stored `response_format` contain its metadata: JSON writes a character as six at most. */
export const METADATA_CHARS = 16 * (64 + 512) * 6 + 1000

/** A text that is in the stored metadata of each job with this pair, and hardly ever in that of other jobs. */
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
