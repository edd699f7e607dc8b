/** Implements searches by repeated scans of the database, for both stores. */
import { searchCallbacksByChunk } from './callback-records.ts'
import type { CallbackFilter, CallbackScan, CallbackSummary } from './callback-store.ts'
import type { Dialect } from './dialect.ts'
import { type JobChunk, type JobScan, searchJobsByChunk } from './job-search.ts'
import type { JobSearch } from './job-search-store.ts'
import type { Chunk } from './pagination.ts'

interface Scans {
  scanCallbacks(scan: CallbackScan): Promise<Chunk<CallbackSummary>>
  scanJobs(scan: JobScan): Promise<JobChunk>
}

export function withSearches<Some extends Scans>({ chunkRows }: Dialect, methods: Some) {
  return {
    ...methods,
    searchCallbacks: (filter: CallbackFilter) =>
      searchCallbacksByChunk(filter, chunkRows, methods.scanCallbacks),
    searchJobs: (search: JobSearch) => searchJobsByChunk(search, chunkRows, methods.scanJobs),
  }
}
