/** Searches rows in the order of jobs' ids, newest first, in chunks that are small enough to delay nobody. */

/** The most rows that one search scans. */
export const MAX_SCANNED = 20_000

/** After and before every id. */
export const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
export const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

/** The rows that one scan read, and which of them match. */
export interface Chunk<T> {
  readonly scanned: number
  /** The last row that was scanned; null if there was none. */
  readonly lastId: string | null
  /** Newest first: all that match, or more than `limit`. */
  readonly matches: readonly T[]
}

export interface ChunkedSearch<T> {
  readonly limit: number
  /** How many rows a chunk has; one that has fewer is the last. */
  readonly chunkRows: number
  readonly beforeId: string
  readonly idOf: (item: T) => string
  readonly scan: (beforeId: string) => Promise<Chunk<T>>
}

export interface Page<T> {
  readonly items: readonly T[]
  /** False if the search stopped at its bound before it knew whether there are more. */
  readonly complete: boolean
  /** The id before which the next page begins; null at the end. */
  readonly next: string | null
}

export async function paginate<T>(search: ChunkedSearch<T>): Promise<Page<T>> {
  const { limit, chunkRows, idOf, scan } = search
  const items: T[] = []
  let before = search.beforeId
  for (let scanned = 0; scanned < MAX_SCANNED; ) {
    const chunk = await scan(before)
    items.push(...chunk.matches)
    if (items.length > limit) {
      const page = items.slice(0, limit)
      const last = page.at(-1)
      return { items: page, complete: true, next: last === undefined ? null : idOf(last) }
    }
    if (chunk.scanned < chunkRows || chunk.lastId === null) return { items, complete: true, next: null }
    scanned += chunk.scanned
    before = chunk.lastId
  }
  return { items, complete: false, next: before }
}
