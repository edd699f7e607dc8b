/**
 * Held requests: the part of the storage contract with which a repeated request joins the job of the earlier one. `accept`
 * stores a held request like an idempotency key. Its key contains a space, so that it never equals the key of a caller.
 */
/** An SQL `like` pattern for the state of a request whose callers have all left. */
export const NO_CALLERS = '{"callers":[]%'
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
   * For each account, returns up to `MAX_EQUAL` requests whose keys start with the prefix at the account's index. Requests
   * whose callers have all left come first, then the oldest.
   */
  heldRequests(
    accounts: readonly string[],
    keyPrefixes: readonly string[],
    nowMs: number,
  ): Promise<HeldRequest[]>

  /**
   * Replaces the state if it equals `expected`, and returns whether it did. Each state is unique, so a repeated call returns
   * the same.
   */
  changeHeldRequest(account: string, key: string, expected: string, state: string): Promise<boolean>

  /** Deletes requests, each named by its account and the key at the same index. A second call changes nothing. */
  forgetHeldRequests(accounts: readonly string[], keys: readonly string[]): Promise<void>

  liveNodes(): Promise<string[]>
}
