/**
 * Requests that are held until their job has ended: the part of the storage contract by which a request that is sent again joins the
 * job of the earlier one. The row of such a request is that of an Idempotency-Key, which `accept` stores; its key contains a space,
 * which no key of a caller does.
 */
/** The pattern of the state of a request without callers. */
export const NO_CALLERS = '{"callers":[]%'
/** How many requests with one prefix are returned at most. */
export const MAX_EQUAL = 100

export interface HeldRequest {
  readonly account: string
  readonly key: string
  readonly jobId: string
  /** What `queue/held-requests.ts` stores about the callers that wait. */
  readonly state: string
}

export interface HeldRequestStore {
  /**
   * For each account and the prefix in the same place: its requests whose keys start with it, those without
   * callers first, the oldest first, at most `MAX_EQUAL` for each.
   */
  heldRequests(
    accounts: readonly string[],
    keyPrefixes: readonly string[],
    nowMs: number,
  ): Promise<HeldRequest[]>

  /** Replaces the state if it is still the expected one; returns whether it was. */
  changeHeldRequest(account: string, key: string, expected: string, state: string): Promise<boolean>

  /** The requests have got their answers. A second call changes nothing. */
  forgetHeldRequests(accounts: readonly string[], keys: readonly string[]): Promise<void>

  /** The nodes that have a lease. */
  liveNodes(): Promise<string[]>
}
