/** Walks what lies in the order of jobs' ids, newest first, in slices that are cheap enough to keep nobody waiting. */

/** What one walk looks at, at most. */
export const MAX_SCANNED = 20_000

/** After and before every id. */
export const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
export const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

export interface Chunk<T> {
  readonly scanned: number
  /** The last that was looked at; null where there was none. */
  readonly lastId: string | null
  /** Those that are wanted, newest first: all of them, or more than `limit`. */
  readonly matches: readonly T[]
}

export interface ChunkedSearch<T> {
  readonly limit: number
  /** How many a slice looks at; a slice that looks at fewer is the last. */
  readonly chunkRows: number
  readonly beforeId: string
  readonly idOf: (one: T) => string
  readonly scan: (beforeId: string) => Promise<Chunk<T>>
}

export interface Page<T> {
  readonly items: readonly T[]
  /** False where the walk stopped at its bound before it knew whether there are more. */
  readonly complete: boolean
  /** Before which id to go on; null at the end. */
  readonly next: string | null
}

export async function paginate<T>({
  limit,
  chunkRows: rows,
  beforeId,
  idOf,
  scan: look,
}: ChunkedSearch<T>): Promise<Page<T>> {
  const found: T[] = []
  let before = beforeId
  for (let looked = 0; looked < MAX_SCANNED; ) {
    const slice = await look(before)
    found.push(...slice.matches)
    if (found.length > limit) {
      const page = found.slice(0, limit)
      const last = page.at(-1)
      return { items: page, complete: true, next: last === undefined ? null : idOf(last) }
    }
    if (slice.scanned < rows || slice.lastId === null) return { items: found, complete: true, next: null }
    looked += slice.scanned
    before = slice.lastId
  }
  return { items: found, complete: false, next: before }
}
