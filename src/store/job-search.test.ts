import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_SCANNED } from './chunked-search.ts'
import { type JobChunk, type JobScan, searchJobsByChunk } from './job-search.ts'

const expiry = { nowMs: 0, retentionMs: 1 }

/** Returns a store with this many jobs, none of which matches. `look` scans them, and `slices` records its scans. */
function nothingAmong(rows: number): { slices: JobScan[]; look: (slice: JobScan) => Promise<JobChunk> } {
  const slices: JobScan[] = []
  let left = rows
  return {
    slices,
    look: async (slice) => {
      slices.push(slice)
      const looked = Math.min(slice.rows, left)
      left -= looked
      return { scanned: looked, lastId: looked === 0 ? null : `id ${left}`, matches: [] }
    },
  }
}

test('a search that finds nothing stops at its bound, and returns where to continue', async () => {
  const { slices, look } = nothingAmong(1_000_000)
  const page = await searchJobsByChunk({ limit: 5, expiry }, 500, look)
  assert.deepEqual(page, { jobs: [], complete: false, next: `id ${1_000_000 - MAX_SCANNED}` })
  assert.equal(slices.length, MAX_SCANNED / 500)
  assert.equal(slices[1]?.beforeId, 'id 999500')
})

test('a search that has scanned everything is complete', async () => {
  for (const rows of [0, 499, 500, 1200]) {
    const page = await searchJobsByChunk({ limit: 5, expiry }, 500, nothingAmong(rows).look)
    assert.deepEqual(page, { jobs: [], complete: true, next: null })
  }
})
