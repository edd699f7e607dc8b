/** The header of a create that lists what its schemas say and no answer is checked for. */
import type { CreateElement } from '../job/create-element.ts'

export const IGNORED_HEADER = 'x-parley-ignored'

/** Bytes of its value. */
const MAX_BYTES = 1024
/** Room for the count of those that are left out. */
const COUNT_BYTES = 16

/**
 * JSON pointers into the schema, of a batch those of all its schemas, percent-encoded as in a URI fragment and separated by
 * commas; `+3` at the end counts those that are left out. Null where nothing is ignored.
 */
export function ignoredHeader(elements: readonly Pick<CreateElement, 'ignored'>[]): string | null {
  const pointers = new Set<string>()
  let more = 0
  for (const { ignored } of elements) {
    if (ignored === null) continue
    for (const pointer of ignored.pointers) pointers.add(pointer)
    more = Math.max(more, ignored.more)
  }
  if (pointers.size === 0 && more === 0) return null
  return listed(pointers, more)
}

function listed(pointers: ReadonlySet<string>, unlisted: number): string {
  const parts: string[] = []
  let more = unlisted
  let bytes = 0
  for (const pointer of pointers) {
    const part = encoded(pointer)
    if (bytes + part.length + 2 > MAX_BYTES - COUNT_BYTES) more++
    else {
      parts.push(part)
      bytes += part.length + 2
    }
  }
  if (more > 0) parts.push(`+${more}`)
  return parts.join(', ')
}

function encoded(pointer: string): string {
  return encodeURI(pointer.toWellFormed()).replace(/[,;]/g, encodeURIComponent)
}
