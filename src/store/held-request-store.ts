/**
 * Held requests: the part of the storage contract by which a repeated request joins the job of the earlier one. `accept` stores a
 * held request as a row of an Idempotency-Key. Its key contains a space, which no caller's key can.
 */
/** A pattern (SQL `like`) for the state of a request without callers. */
export const NO_CALLERS = '{"callers":[]%'
/** The maximum number of requests returned for one prefix. */
export const MAX_EQUAL = 100

export interface HeldRequest {
  readonly account: string
  readonly key: string
  readonly jobId: string
  /** The state of the waiting callers, as `queue/held-requests.ts` writes it. */
  readonly state: string
}

export interface HeldRequestStore {
  /**
   * Returns, for each account, up to `MAX_EQUAL` requests whose keys start with the prefix at the same index: requests without
   * callers first, then the oldest first.
   */
  heldRequests(
    accounts: readonly string[],
    keyPrefixes: readonly string[],
    nowMs: number,
  ): Promise<HeldRequest[]>

  /** Replaces the state if it equals `expected`; returns whether it did. A repeated call returns the same: each state is unique. */
  changeHeldRequest(account: string, key: string, expected: string, state: string): Promise<boolean>

  /** Deletes requests that were answered: the key at the same index as its account. A second call changes nothing. */
  forgetHeldRequests(accounts: readonly string[], keys: readonly string[]): Promise<void>

  /** Returns the nodes that have a lease. */
  liveNodes(): Promise<string[]>
}
