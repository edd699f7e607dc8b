/**
 * Held requests: the part of the storage contract with which a repeated request joins the job of the earlier one. `accept`
 * stores them like idempotency keys. Their keys contain a space, so they never equal the key of a caller.
 */
/** The state of a request whose callers have all left matches this SQL `like` pattern. */
export const NO_CALLERS = '{"callers":[]%'
export const MAX_EQUAL = 100

export interface HeldRequest {
  readonly account: string
  readonly key: string
  readonly jobId: string
  /** `queue/held-requests.ts` defines this text. */
  readonly state: string
}

export interface HeldRequestStore {
  /**
   * Returns up to `MAX_EQUAL` requests of each account whose keys start with the prefix at the account's index. Requests whose
   * callers have all left come first, then the oldest.
   */
  heldRequests(
    accounts: readonly string[],
    keyPrefixes: readonly string[],
    nowMs: number,
  ): Promise<HeldRequest[]>

  /** Returns false if the state was not `expected`. Each state is unique, so a second call returns the same. */
  changeHeldRequest(account: string, key: string, expected: string, state: string): Promise<boolean>

  /** Each request is named by its account and the key at the same index. A second call changes nothing. */
  forgetHeldRequests(accounts: readonly string[], keys: readonly string[]): Promise<void>

  liveNodes(): Promise<string[]>
}
