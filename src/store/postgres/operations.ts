/** What operators and nodes alike do in the database: all that is not the life of a job. */
import type { TierName } from '../../job/tier.ts'
import type { AccountPage, KeySearch, NewKey, OwnCaps } from '../account-store.ts'
import type { CancelJobs } from '../admin-action-store.ts'
import type { AuditSearch, NewAuditEntry } from '../audit-store.ts'
import type { CallbackFilter, FailedFilter } from '../callback-store.ts'
import type { Expiry } from '../expiry.ts'
import type { JobSearch } from '../job-records.ts'
import type { OperatorStore } from '../operator-store.ts'
import type { UsageSearch } from '../usage-store.ts'
import { PostgresAccounts } from './accounts.ts'
import { PostgresAudit } from './audit.ts'
import { PostgresCallbackRecords } from './callback-records.ts'
import { cancelJob, cancelJobs } from './cancel.ts'
import type { Database } from './database.ts'
import { deleteAccount, deleteJob, deleteJobsOf, scrub } from './delete.ts'
import { PostgresJobRecords } from './job-records.ts'
import { PostgresUsage } from './usage.ts'

export class PostgresOperations implements OperatorStore {
  readonly #database: Database
  readonly #url: string
  readonly #accounts: PostgresAccounts
  readonly #audit: PostgresAudit
  readonly #callbacks: PostgresCallbackRecords
  readonly #jobs: PostgresJobRecords
  readonly #usage: PostgresUsage

  constructor(database: Database, url: string) {
    this.#database = database
    this.#url = url
    this.#accounts = new PostgresAccounts(database)
    this.#audit = new PostgresAudit(database)
    this.#callbacks = new PostgresCallbackRecords(database)
    this.#jobs = new PostgresJobRecords(database)
    this.#usage = new PostgresUsage(database)
  }

  createKey = (key: NewKey) => this.#accounts.createKey(key)
  listKeys = () => this.#accounts.listKeys()
  searchKeys = (search: KeySearch) => this.#accounts.searchKeys(search)
  listAccounts = (page: AccountPage) => this.#accounts.listAccounts(page)
  revokeKey = (keyId: string, nowMs: number) => this.#accounts.revokeKey(keyId, nowMs)
  findKey = (hash: string) => this.#accounts.findKey(hash)
  setTier = (account: string, tier: TierName) => this.#accounts.setTier(account, tier)
  suspend = (account: string, sinceMs: number | null) => this.#accounts.suspend(account, sinceMs)
  setCaps = (account: string, caps: OwnCaps) => this.#accounts.setCaps(account, caps)
  secrets = (account: string) => this.#accounts.secrets(account)
  rotateSecret = (account: string, secret: string, nowMs: number) =>
    this.#accounts.rotateSecret(account, secret, nowMs)
  hasAccounts = () => this.#accounts.hasAccounts()

  addAuditEntry = (act: NewAuditEntry) => this.#audit.addAuditEntry(act)
  endAuditEntry = (actId: string, outcome: string) => this.#audit.endAuditEntry(actId, outcome)
  listAuditEntries = (search: AuditSearch) => this.#audit.listAuditEntries(search)

  searchCallbacks = (filter: CallbackFilter) => this.#callbacks.searchCallbacks(filter)
  findCallback = (jobId: string) => this.#callbacks.findCallback(jobId)
  replayCallback = (jobId: string, expiry: Expiry) => this.#callbacks.replayCallback(jobId, expiry)
  replayFailedCallbacks = (filter: FailedFilter, expiry: Expiry) =>
    this.#callbacks.replayFailedCallbacks(filter, expiry)

  searchJobs = (search: JobSearch) => this.#jobs.searchJobs(search)
  findJob = (jobId: string, expiry: Expiry) => this.#jobs.findJob(jobId, expiry)
  jobContent = (jobId: string, expiry: Expiry) => this.#jobs.jobContent(jobId, expiry)

  listUsage = (search: UsageSearch) => this.#usage.listUsage(search)
  used = (account: string, month: string) => this.#usage.used(account, month)

  cancelJob = (jobId: string, nowMs: number) => cancelJob(this.#database, jobId, nowMs)
  cancelJobs = (which: CancelJobs) => cancelJobs(this.#database, which)
  deleteJob = (jobId: string) => deleteJob(this.#database, jobId)
  deleteJobsOf = (account: string, afterJobId: string) => deleteJobsOf(this.#database, account, afterJobId)
  deleteAccount = (account: string) => deleteAccount(this.#database, account)
  scrub = () => scrub(this.#url)

  close(): Promise<void> {
    return this.#database.close()
  }
}
