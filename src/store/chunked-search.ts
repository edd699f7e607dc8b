/** Searches rows by job ID, newest first, in chunks that are small enough not to delay other operations. */

/** A search scans at most this many rows, so that a search that finds little still ends soon. */
export const MAX_SCANNED = 20_000

export const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
export const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

export interface Chunk<T> {
  readonly scanned: number
  readonly lastId: string | null
  /** These are all matches among the scanned rows, or more than the `limit` of the search, newest first. */
  readonly matches: readonly T[]
}

export interface ChunkedSearch<T> {
  readonly limit: number
  /** A scan that reads fewer rows has reached the end. */
  readonly chunkRows: number
  readonly beforeId: string
  readonly idOf: (item: T) => string
  readonly scan: (beforeId: string) => Promise<Chunk<T>>
}

export interface Page<T> {
  readonly items: readonly T[]
  /** False if the search stopped at `MAX_SCANNED` rows, so that there may be more matches. */
  readonly complete: boolean
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
