/** Tests that `parley callbacks list` continues a search that stopped at the store's limit. */
import assert from 'node:assert/strict'
import test from 'node:test'
import type { CallbackFilter, CallbackSummary } from '../store/callback-store.ts'
import { MAX_SCANNED, type Page, paginate } from '../store/chunked-search.ts'
import { searchedInFull } from './callbacks.ts'

const ROWS = 2000

/**
 * Simulates a search through the callbacks of `jobs` jobs, newest first. Only the callbacks at the positions `wanted` match.
 */
function searchOf(jobs: number, wanted: readonly number[]) {
  let searches = 0
  const search = ({ beforeJobId, limit }: CallbackFilter): Promise<Page<CallbackSummary>> => {
    searches += 1
    return paginate<CallbackSummary>({
      limit,
      chunkRows: ROWS,
      beforeId: beforeJobId ?? '-1',
      idOf: ({ jobId }) => jobId,
      scan: async (beforeId) => {
        const first = Number(beforeId) + 1
        const end = Math.min(first + ROWS, jobs)
        const found = wanted.filter((at) => at >= first && at < end).map((at) => ({ jobId: String(at) }))
        const lastId = end > first ? String(end - 1) : null
        return { scanned: end - first, lastId, matches: found as CallbackSummary[] }
      },
    })
  }
  return { search, searches: () => searches }
}

test('a rare callback is found behind any number of others', async () => {
  const { search, searches } = searchOf(3 * MAX_SCANNED, [5, 2 * MAX_SCANNED + 7])
  const { items: found, next } = await searchedInFull({ limit: 10 }, search)
  assert.deepEqual(
    found.map(({ jobId }) => jobId),
    ['5', String(2 * MAX_SCANNED + 7)],
  )
  assert.equal(next, null)
  assert.ok(searches() > 2)
})

test('no more than the limit, and then where to continue', async () => {
  const { search } = searchOf(2 * MAX_SCANNED, [5, MAX_SCANNED + 7, MAX_SCANNED + 8])
  const first = await searchedInFull({ limit: 2 }, search)
  assert.deepEqual([first.items.length, first.next], [2, String(MAX_SCANNED + 7)])
  const rest = await searchedInFull({ limit: 2, beforeJobId: first.next ?? '' }, search)
  assert.deepEqual([rest.items.map(({ jobId }) => jobId), rest.next], [[String(MAX_SCANNED + 8)], null])
})
