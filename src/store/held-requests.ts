/** Held requests, in every store. */
import type { Dialect } from './dialect.ts'
import type { HeldRequest } from './held-request-store.ts'
import { textOf } from './rows.ts'
import { read, repeatableWrite, type Steps, sql } from './sql.ts'

export const heldRequestOperations = ({ isOneOf, liveNodes }: Dialect) => ({
  heldRequests: read(function* (account: string, prefix: string, nowMs: number): Steps<HeldRequest[]> {
    // Bounds of digits and letters only: between those, keys of one length are in the same order in every collation.
    const rows = yield sql`
      select key, job_ids, fingerprint from idempotency
      where account = ${account} and key >= ${`${prefix}0`} and key < ${`${prefix}z`} and until_ms > ${nowMs}`
    return rows
      .map((row) => {
        const [jobId = ''] = JSON.parse(textOf(row, 'job_ids'))
        return { key: textOf(row, 'key'), jobId, state: textOf(row, 'fingerprint') }
      })
      .filter(({ key }) => key.startsWith(prefix))
  }),

  changeHeldRequest: repeatableWrite(function* (
    account: string,
    key: string,
    expected: string,
    state: string,
  ): Steps<boolean> {
    const changed = yield sql`
      update idempotency set fingerprint = ${state}
      where account = ${account} and key = ${key} and fingerprint = ${expected} returning key`
    return changed.length > 0
  }),

  forgetHeldRequests: repeatableWrite(function* (
    accounts: readonly string[],
    keys: readonly string[],
  ): Steps<void> {
    yield sql`delete from idempotency where account ${isOneOf(accounts)} and key ${isOneOf(keys)}`
  }),

  liveNodes: read(function* (): Steps<string[]> {
    return (yield liveNodes).map((row) => textOf(row, 'node'))
  }),
})
