/**
 * Held requests: the part of the storage contract with which a repeated request joins the job of the earlier one. `accept`
 * stores a held request in the row of an Idempotency-Key. Its key contains a space, unlike the keys of callers.
 */
/** A pattern (SQL `like`) for the state of a request whose callers have all left. */
export const NO_CALLERS = '{"callers":[]%'
/** The maximum number of requests returned for one prefix. */
export const MAX_EQUAL = 100

export interface HeldRequest {
  readonly account: string
  readonly key: string
  readonly jobId: string
  /** The state of the request's callers, which `queue/held-requests.ts` writes. */
  readonly state: string
}

export interface HeldRequestStore {
  /**
   * For each account, returns up to `MAX_EQUAL` requests whose keys start with the prefix at the account's index: first those
   * whose callers have left, then oldest first.
   */
  heldRequests(
    accounts: readonly string[],
    keyPrefixes: readonly string[],
    nowMs: number,
  ): Promise<HeldRequest[]>

  /**
   * Replaces the state if it equals `expected`; returns whether it did. A repeated call returns the same, because each state is
   * unique.
   */
  changeHeldRequest(account: string, key: string, expected: string, state: string): Promise<boolean>

  /** Deletes answered requests, each by its account and the key at the same index. A second call changes nothing. */
  forgetHeldRequests(accounts: readonly string[], keys: readonly string[]): Promise<void>

  /** Returns the nodes that have a lease. */
  liveNodes(): Promise<string[]>
}
