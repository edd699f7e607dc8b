/** What an operator may do from beside running servers: the part of a store that commands open. */
import type { AccountStore } from './account-store.ts'
import type { CallbackRecords } from './callback-store.ts'

export interface OperatorStore extends AccountStore, CallbackRecords {
  close(): Promise<void>
}
