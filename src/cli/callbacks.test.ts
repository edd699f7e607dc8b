/** `parley callbacks list` continues a search that stopped at the store's limit. */
import assert from 'node:assert/strict'
import test from 'node:test'
import type { CallbackFilter, CallbackSummary } from '../store/callback-store.ts'
import { MOST_SEARCHED, type Page, paginate } from '../store/pagination.ts'
import { searchedInFull } from './callbacks.ts'

const ROWS = 2000

/** Callbacks of so many jobs, newest first, of which those at these places are wanted. */
function searchOf(jobs: number, wanted: readonly number[]) {
  let searches = 0
  const search = ({ beforeJobId, limit }: CallbackFilter): Promise<Page<CallbackSummary>> => {
    searches += 1
    return paginate<CallbackSummary>({
      limit,
      rows: ROWS,
      beforeId: beforeJobId ?? '-1',
      idOf: ({ jobId }) => jobId,
      look: async (beforeId) => {
        const first = Number(beforeId) + 1
        const end = Math.min(first + ROWS, jobs)
        const found = wanted.filter((at) => at >= first && at < end).map((at) => ({ jobId: String(at) }))
        const lastId = end > first ? String(end - 1) : null
        return { looked: end - first, lastId, found: found as CallbackSummary[] }
      },
    })
  }
  return { search, searches: () => searches }
}

test('a rare callback is found behind any number of others', async () => {
  const { search, searches } = searchOf(3 * MOST_SEARCHED, [5, 2 * MOST_SEARCHED + 7])
  const { found, next } = await searchedInFull({ limit: 10 }, search)
  assert.deepEqual(
    found.map(({ jobId }) => jobId),
    ['5', String(2 * MOST_SEARCHED + 7)],
  )
  assert.equal(next, null)
  assert.ok(searches() > 2)
})

test('no more than the limit, and then where to go on', async () => {
  const { search } = searchOf(2 * MOST_SEARCHED, [5, MOST_SEARCHED + 7, MOST_SEARCHED + 8])
  const first = await searchedInFull({ limit: 2 }, search)
  assert.deepEqual([first.found.length, first.next], [2, String(MOST_SEARCHED + 7)])
  const rest = await searchedInFull({ limit: 2, beforeJobId: first.next ?? '' }, search)
  assert.deepEqual([rest.found.map(({ jobId }) => jobId), rest.next], [[String(MOST_SEARCHED + 8)], null])
})
