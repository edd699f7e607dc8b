/** Searches as the contract has them, made of scans: each scan is an operation of its own, so that others run between them. */
import { searchCallbacksByChunk } from '../callback-rows.ts'
import type { CallbackFilter } from '../callback-store.ts'
import { searchJobsByChunk } from '../job-search.ts'
import type { JobSearch } from '../job-search-store.ts'
import { CHUNK_ROWS } from './job-search.ts'
import type { Methods } from './operations.ts'

export function withSearches<Scans extends Methods<'scanCallbacks' | 'scanJobs'>>(methods: Scans) {
  return {
    ...methods,
    searchCallbacks: (filter: CallbackFilter) =>
      searchCallbacksByChunk(filter, CHUNK_ROWS, methods.scanCallbacks),
    searchJobs: (search: JobSearch) => searchJobsByChunk(search, CHUNK_ROWS, methods.scanJobs),
  }
}
