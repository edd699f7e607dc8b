/**
 * Parley's own response headers: the one that lists the parts of a create request's schemas that it does not check, and the one
 * that marks answers of the simulator.
 */
import type { CreateElement } from '../job/create-body.ts'

export const IGNORED_HEADER = 'x-parley-ignored'

/** Maximum bytes of its value. */
const MAX_BYTES = 1024
/** Bytes reserved for the count of omitted pointers. */
const COUNT_BYTES = 16

/**
 * JSON pointers into the schema, or into all schemas of a batch, percent-encoded as in a URI fragment and separated by
 * commas. A final `+3` means that three more were omitted. Null if nothing is ignored.
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

/** The header that marks responses and callbacks while the simulator answers, so that nobody mistakes its answers for a model's. */
export const SIMULATED_HEADER = 'x-parley-simulated'
