/** Walks what lies in the order of jobs' ids, newest first, in slices that are cheap enough to keep nobody waiting. */

/** What one walk looks at, at most. */
export const MOST_SEARCHED = 20_000

/** After and before every id. */
export const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
export const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

export interface PageSlice<T> {
  readonly looked: number
  /** The last that was looked at; null where there was none. */
  readonly lastId: string | null
  /** Those that are wanted, newest first: all of them, or more than `limit`. */
  readonly found: readonly T[]
}

export interface Walk<T> {
  readonly limit: number
  /** How many a slice looks at; a slice that looks at fewer is the last. */
  readonly rows: number
  readonly beforeId: string
  readonly idOf: (one: T) => string
  readonly look: (beforeId: string) => Promise<PageSlice<T>>
}

export interface Page<T> {
  readonly found: readonly T[]
  /** False where the walk stopped at its bound before it knew whether there are more. */
  readonly complete: boolean
  /** Before which id to go on; null at the end. */
  readonly next: string | null
}

export async function paginate<T>({ limit, rows, beforeId, idOf, look }: Walk<T>): Promise<Page<T>> {
  const found: T[] = []
  let before = beforeId
  for (let looked = 0; looked < MOST_SEARCHED; ) {
    const slice = await look(before)
    found.push(...slice.found)
    if (found.length > limit) {
      const page = found.slice(0, limit)
      const last = page.at(-1)
      return { found: page, complete: true, next: last === undefined ? null : idOf(last) }
    }
    if (slice.looked < rows || slice.lastId === null) return { found, complete: true, next: null }
    looked += slice.looked
    before = slice.lastId
  }
  return { found, complete: false, next: before }
}
