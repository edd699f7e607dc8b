/** Both stores share this SQL, which finds, changes and deletes held requests, and lists the live nodes that may hold them. */
import type { Dialect } from './dialect.ts'
import type { HeldRequest } from './held-request-store.ts'
import { textOf } from './rows.ts'
import { read, repeatableWrite, type Steps, sql } from './sql.ts'

export const heldRequestOperations = ({ heldRequestsOf, isOneOf, liveNodes, pairsOf }: Dialect) => ({
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
