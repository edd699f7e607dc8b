/** Searches rows by job ID, newest first, in chunks that are small enough not to delay other operations. */

/** The maximum number of rows that one search scans. */
export const MAX_SCANNED = 20_000

/** An ID after every job ID, and one before every job ID. */
export const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
export const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

/** The result of one scan. */
export interface Chunk<T> {
  readonly scanned: number
  /** The ID of the last scanned row; null if none was scanned. */
  readonly lastId: string | null
  /** The matches, newest first: all of them, or at least `limit` and one more. */
  readonly matches: readonly T[]
}

export interface ChunkedSearch<T> {
  readonly limit: number
  /** The size of a chunk. A smaller chunk is the last one. */
  readonly chunkRows: number
  readonly beforeId: string
  readonly idOf: (item: T) => string
  readonly scan: (beforeId: string) => Promise<Chunk<T>>
}

export interface Page<T> {
  readonly items: readonly T[]
  /** False if the search reached `MAX_SCANNED` before it knew whether there are more. */
  readonly complete: boolean
  /** The ID before which the next page starts; null at the end. */
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
