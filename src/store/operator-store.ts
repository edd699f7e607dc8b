/** The part of the storage contract that commands use, even while servers are running. */
import type { AccountStore, AdminTokenStore } from './account-store.ts'
import type { AdminActionStore } from './admin-action-store.ts'
import type { AuditStore } from './audit-store.ts'
import type { BatchStore } from './batch-store.ts'
import type { CallbackRecords } from './callback-store.ts'
import type { FileStore } from './file-store.ts'
import type { JobSearchStore } from './job-search-store.ts'
import type { RerunStore } from './rerun-store.ts'
import type { UsageStore } from './usage-store.ts'

export interface OperatorStore
  extends AccountStore,
    AuditStore,
    Omit<BatchStore, 'advanceBatch'>,
    CallbackRecords,
    AdminActionStore,
    AdminTokenStore,
    FileStore,
    JobSearchStore,
    RerunStore,
    UsageStore {
  close(): Promise<void>
}
