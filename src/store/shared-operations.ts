/** Collects the operations whose SQL both stores share, and contains those of held requests and of the audit log. */
import { isJobId } from '../job/job-id.ts'
import { accountOperations, adminTokenOperations, keyOperations } from './accounts.ts'
import { batchOperations } from './batches.ts'
import { callbackRecordOperations, searchCallbacksByChunk } from './callback-records.ts'
import type { CallbackFilter, CallbackScan, CallbackSummary } from './callback-store.ts'
import type { Chunk } from './chunked-search.ts'
import type { Dialect } from './dialect.ts'
import { fileOperations } from './files.ts'
import type { HeldRequest } from './held-request-store.ts'
import { cancelOperations, deleteOperations } from './job-actions.ts'
import { type JobChunk, type JobScan, jobSearchOperations, searchJobsByChunk } from './job-search.ts'
import type { JobSearch } from './job-search-store.ts'
import type { AuditEntry, AuditSearch, NewAuditEntry } from './operator-store.ts'
import { rerunOperations } from './reruns.ts'
import { numberOf, type Row, textOf, textOrNull } from './rows.ts'
import { allOf, read, repeatableWrite, type Steps, sql } from './sql.ts'
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

const heldRequestOperations = ({ heldRequestsOf, isOneOf, liveNodes, pairsOf }: Dialect) => ({
  heldRequests: read(function* (
    accounts: readonly string[],
    prefixes: readonly string[],
    nowMs: number,
  ): Steps<HeldRequest[]> {
    const known = new Set(prefixes)
    const rows = yield heldRequestsOf(accounts, prefixes, nowMs)
    return rows
      .map((row) => {
        const [jobId = ''] = JSON.parse(textOf(row, 'job_ids'))
        return {
          account: textOf(row, 'account'),
          key: textOf(row, 'key'),
          jobId,
          state: textOf(row, 'fingerprint'),
        }
      })
      .filter(({ key, jobId }) => known.has(key.slice(0, -jobId.length)))
  }),

  changeHeldRequest: repeatableWrite(function* (
    account: string,
    key: string,
    expected: string,
    state: string,
  ): Steps<boolean> {
    // A statement that is repeated after a broken connection finds the new state.
    const changed = yield sql`
      update idempotency set fingerprint = ${state}
      where account = ${account} and key = ${key} and fingerprint ${isOneOf([expected, state])} returning key`
    return changed.length > 0
  }),

  forgetHeldRequests: repeatableWrite(function* (
    accounts: readonly string[],
    keys: readonly string[],
  ): Steps<void> {
    yield sql`delete from idempotency where (account, key) in (${pairsOf(accounts, keys)})`
  }),

  liveNodes: read(function* (): Steps<string[]> {
    return (yield liveNodes).map((row) => textOf(row, 'node'))
  }),
})

const auditOperations = {
  // A statement that is repeated because its response was lost finds its own row.
  addAuditEntry: repeatableWrite(function* (entry: NewAuditEntry): Steps<void> {
    const { id, atMs, who, what, account, target, detailsJson } = entry
    yield sql`
      insert into audit (id, at_ms, who, what, account, target, details)
      values (${id}, ${atMs}, ${who}, ${what}, ${accountOf(account)}, ${target}, ${detailsJson})
      on conflict (id) do nothing`
  }),

  endAuditEntry: repeatableWrite(function* (entryId: string, outcome: string): Steps<void> {
    yield sql`update audit set outcome = ${outcome} where id = ${entryId}`
  }),

  listAuditEntries: read(function* ({ account, beforeEntryId, limit }: AuditSearch): Steps<AuditEntry[]> {
    const which = allOf(
      account === undefined ? undefined : sql`account = ${account}`,
      beforeEntryId === undefined || !isJobId(beforeEntryId) ? undefined : sql`id < ${beforeEntryId}`,
    )
    const rows = yield sql`
      select id, at_ms, who, what, account, target, details, outcome from audit
      where ${which} order by id desc limit ${limit}`
    return rows.map(readAuditEntry)
  }),
}

function accountOf(account: NewAuditEntry['account']) {
  if (account === null || typeof account === 'string') return account
  if ('ofKey' in account) return sql`(select account from keys where id = ${account.ofKey})`
  if ('ofBatch' in account) return sql`(select account from batches where id = ${account.ofBatch})`
  // Postgres would reject the statement if this text were not a UUID.
  return isJobId(account.ofJob) ? sql`(select account from jobs where id = ${account.ofJob})` : null
}

function readAuditEntry(row: Row): AuditEntry {
  return {
    id: textOf(row, 'id'),
    atMs: numberOf(row, 'at_ms'),
    who: textOf(row, 'who'),
    what: textOf(row, 'what'),
    account: textOrNull(row, 'account'),
    target: textOrNull(row, 'target'),
    detailsJson: textOf(row, 'details'),
    outcome: textOrNull(row, 'outcome'),
  }
}
