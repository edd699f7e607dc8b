/**
 * Parley adds its own response headers: `x-parley-ignored` lists what Parley does not check in a request's schemas, and
 * `x-parley-simulated` marks answers of the simulator.
 */
import type { CreateElement } from '../job/create-body.ts'

export const IGNORED_HEADER = 'x-parley-ignored'

/** The value of `x-parley-ignored` has at most this many bytes. */
const MAX_BYTES = 1024
/** These bytes are reserved for the final `+N`. */
const COUNT_BYTES = 16

/** Returns null if Parley checks everything. `+3` at the end of the pointers means that three more were omitted. */
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

/** Without this header, somebody could take the simulator's answers for those of a model. */
export const SIMULATED_HEADER = 'x-parley-simulated'
