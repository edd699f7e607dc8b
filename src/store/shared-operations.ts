/** Collects the operations whose SQL both stores share. */
import { accountOperations } from './accounts.ts'
import { auditOperations } from './audit.ts'
import { batchOperations } from './batches.ts'
import { callbackRecordOperations, searchCallbacksByChunk } from './callback-records.ts'
import type { CallbackFilter, CallbackScan, CallbackSummary } from './callback-store.ts'
import type { Chunk } from './chunked-search.ts'
import type { Dialect } from './dialect.ts'
import { fileOperations } from './files.ts'
import { heldRequestOperations } from './held-requests.ts'
import { cancelOperations, deleteOperations } from './job-actions.ts'
import { type JobChunk, type JobScan, jobSearchOperations, searchJobsByChunk } from './job-search.ts'
import type { JobSearch } from './job-search-store.ts'
import { adminTokenOperations, keyOperations } from './keys.ts'
import { rerunOperations } from './reruns.ts'
import { costCapOperations, usageOperations } from './usage.ts'

/** Commands use these operations, even while servers are running. */
export const sharedOperatorOperations = (dialect: Dialect) => ({
  ...accountOperations(dialect),
  ...adminTokenOperations,
  ...auditOperations,
  ...batchOperations(dialect),
  ...callbackRecordOperations(dialect),
  ...cancelOperations(dialect),
  ...deleteOperations(dialect),
  ...fileOperations(dialect),
  ...jobSearchOperations(dialect),
  ...keyOperations(dialect),
  ...rerunOperations(dialect),
  ...usageOperations(dialect),
})

export const sharedServerOperations = (dialect: Dialect) => ({
  ...costCapOperations(dialect),
  ...heldRequestOperations(dialect),
})

interface Scans {
  scanCallbacks(scan: CallbackScan): Promise<Chunk<CallbackSummary>>
  scanJobs(scan: JobScan): Promise<JobChunk>
}

/** Each search consists of several scans, so that other operations run between them. */
export function withSearches<Some extends Scans>({ chunkRows }: Dialect, methods: Some) {
  return {
    ...methods,
    searchCallbacks: (filter: CallbackFilter) =>
      searchCallbacksByChunk(filter, chunkRows, methods.scanCallbacks),
    searchJobs: (search: JobSearch) => searchJobsByChunk(search, chunkRows, methods.scanJobs),
  }
}
