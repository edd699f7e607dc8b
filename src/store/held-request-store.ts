/**
 * Held requests: the part of the storage contract with which a repeated request joins the job of an earlier, identical request.
 * `accept` stores them like idempotency keys. Their keys contain a space, so they never equal the key of a caller.
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
   * For each index, returns up to `MAX_EQUAL` requests of the account whose keys start with the prefix. Requests whose callers
   * have all left come first, then the oldest.
   */
  heldRequests(
    accounts: readonly string[],
    keyPrefixes: readonly string[],
    nowMs: number,
  ): Promise<HeldRequest[]>

  /** Returns false if the state was not `expected`. Each state is unique, so a second call returns the same. */
  changeHeldRequest(account: string, key: string, expected: string, state: string): Promise<boolean>

  /** The account and the key at the same index name a request. A second call changes nothing. */
  forgetHeldRequests(accounts: readonly string[], keys: readonly string[]): Promise<void>

  liveNodes(): Promise<string[]>
}
