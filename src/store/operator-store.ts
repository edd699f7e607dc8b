/** What an operator may do from beside running servers: the part of a store that commands open. */
import type { AccountStore } from './account-store.ts'
import type { CallbackRecords } from './callback-store.ts'
import type { JobRecords } from './job-records.ts'

export interface OperatorStore extends AccountStore, CallbackRecords, JobRecords {
  close(): Promise<void>
}
