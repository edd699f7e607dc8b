/**
 * Enforces quotas: how many jobs an account may have open at the same time, and how many bytes it may store. The database keeps
 * the sums. A node adds the jobs that it has accepted since it last read them, so a single node never exceeds a quota of open
 * jobs. So that several nodes can share what is left of a quota, each node reads the sums again after it has accepted a
 * sixteenth of the rest.
 */
import type { Clock } from '../clock.ts'
import type { Job } from '../job/job.ts'
import type { Tier } from '../job/tier.ts'
import type { OwnCaps } from '../store/account-store.ts'
import type { QuotaUse, UsageStore } from '../store/usage-store.ts'
import { type Cap, capOf } from './job-and-token-caps.ts'

/** A node may accept this fraction of what is left of a quota before it reads the sums again. */
const SHARE = 1 / 16
/** Answers count towards the sums, and a node does not count their sizes itself. So it reads the sums again after this time. */
const FRESH_MS = 5000
/** A node waits at least this long between two reads of an account's sums, however often the account reaches its quota. */
const PAUSE_MS = 100
const MAX_ACCOUNTS = 10_000

export interface QuotaLimits {
  readonly openJobs: Cap | null
  readonly storedBytes: Cap | null
}

/** Returns null if there are no quotas. */
export function quotasOf(account: string, tier: Tier, own: OwnCaps): QuotaLimits | null {
  const openJobs = capOf(account, tier, own.openJobs, tier.maxOpenJobs)
  const storedBytes = capOf(account, tier, own.storedBytes, tier.maxStoredBytes)
  return openJobs === null && storedBytes === null ? null : { openJobs, storedBytes }
}

export interface QuotaReached {
  readonly kind: 'quota'
  readonly account: string
  readonly unit: 'open jobs' | 'stored bytes'
  readonly limit: Cap
  /** This includes the jobs or bytes of requests in progress. */
  readonly used: number
  readonly added: number
}

interface Entry {
  use: QuotaUse
  lookedUpAtMs: number
  /** Nothing is reserved until this lookup has ended. */
  lookUp: Promise<void> | null
  /** This node has accepted these jobs since the last lookup, so the sums in `use` do not include them. */
  acceptedJobs: number
  acceptedBytes: number
  /** This node is accepting these jobs. Files reserve bytes without jobs. */
  reservedJobs: number
  reservedBytes: number
  /** A lookup sets this, to wait until nothing is being stored for the account. */
  onIdle: (() => void) | null
}

export interface QuotasOptions {
  readonly store: Pick<UsageStore, 'quotaUse'>
  readonly clock: Pick<Clock, 'steadyMs'>
}

export class Quotas {
  readonly #options: QuotasOptions
  /** The accounts are in the order in which they were added, because the oldest one is dropped first. */
  readonly #entries = new Map<string, Entry>()

  constructor(options: QuotasOptions) {
    this.#options = options
  }

  /**
   * Counts jobs that are about to be accepted, until `end`. Returns the quota that they would exceed, or null if they fit.
   * Returns a promise only if the sums must be read; it rejects with `StoreUnavailable` if that fails.
   * @param bytes what the jobs store before they finish (`bytesToStore`), or the size of a piece of a file
   */
  reserve(
    account: string,
    limits: QuotaLimits,
    jobs: number,
    bytes: number,
  ): QuotaReached | null | Promise<QuotaReached | null> {
    const entry = this.#entryOf(account)
    if (entry.lookUp === null && this.#isFresh(entry, limits, jobs, bytes))
      return reserveIn(entry, account, limits, jobs, bytes)
    return this.#lookUp(account, entry).then(() => reserveIn(entry, account, limits, jobs, bytes))
  }

  /** Call this once after each reservation that succeeded, whether or not its jobs were accepted. */
  end(account: string, jobs: number, bytes: number, accepted: boolean): void {
    const entry = this.#entries.get(account)
    if (entry === undefined) return
    entry.reservedJobs -= jobs
    entry.reservedBytes -= bytes
    if (accepted) {
      entry.acceptedJobs += jobs
      entry.acceptedBytes += bytes
    }
    if (isIdle(entry)) entry.onIdle?.()
  }

  #isFresh(entry: Entry, { openJobs, storedBytes }: QuotaLimits, jobs: number, bytes: number): boolean {
    const ageMs = this.#options.clock.steadyMs() - entry.lookedUpAtMs
    if (ageMs < PAUSE_MS) return true
    if (ageMs >= FRESH_MS) return false
    const { use, acceptedJobs, reservedJobs, acceptedBytes, reservedBytes } = entry
    const isOver = (limit: Cap | null, used: number, added: number) =>
      limit !== null && added > (limit.limit - used) * SHARE
    return !(
      isOver(openJobs, use.openJobs, acceptedJobs + reservedJobs + jobs) ||
      isOver(storedBytes, use.storedBytes, acceptedBytes + reservedBytes + bytes)
    )
  }

  #entryOf(account: string): Entry {
    let entry = this.#entries.get(account)
    if (entry === undefined) {
      if (this.#entries.size >= MAX_ACCOUNTS) this.#dropOldest()
      entry = {
        use: { openJobs: 0, storedBytes: 0 },
        lookedUpAtMs: Number.NEGATIVE_INFINITY,
        lookUp: null,
        acceptedJobs: 0,
        acceptedBytes: 0,
        reservedJobs: 0,
        reservedBytes: 0,
        onIdle: null,
      }
      this.#entries.set(account, entry)
    }
    return entry
  }

  #dropOldest(): void {
    for (const [account, entry] of this.#entries) {
      if (!isIdle(entry) || entry.lookUp !== null) continue
      this.#entries.delete(account)
      return
    }
  }

  #lookUp(account: string, entry: Entry): Promise<void> {
    entry.lookUp ??= this.#read(account, entry).finally(() => {
      entry.lookUp = null
    })
    return entry.lookUp
  }

  /**
   * Waits until no job of the account is being accepted. Otherwise the sums might include jobs that are also counted here, and
   * the account would be rejected too early.
   */
  async #read(account: string, entry: Entry): Promise<void> {
    const { store, clock } = this.#options
    if (!isIdle(entry)) {
      await new Promise<void>((resolve) => {
        entry.onIdle = resolve
      })
      entry.onIdle = null
    }
    const startedMs = clock.steadyMs()
    entry.use = await store.quotaUse(account)
    entry.acceptedJobs = 0
    entry.acceptedBytes = 0
    entry.lookedUpAtMs = startedMs
  }
}

/** Pieces of files reserve bytes without a job, so both counts matter. */
function isIdle({ reservedJobs, reservedBytes }: Entry): boolean {
  return reservedJobs === 0 && reservedBytes === 0
}

function reserveIn(
  entry: Entry,
  account: string,
  { openJobs, storedBytes }: QuotaLimits,
  jobs: number,
  bytes: number,
): QuotaReached | null {
  const openNow = entry.use.openJobs + entry.acceptedJobs + entry.reservedJobs
  if (openJobs !== null && openNow + jobs > openJobs.limit) {
    return { kind: 'quota', account, unit: 'open jobs', limit: openJobs, used: openNow, added: jobs }
  }
  const storedNow = entry.use.storedBytes + entry.acceptedBytes + entry.reservedBytes
  if (storedBytes !== null && storedNow + bytes > storedBytes.limit) {
    return { kind: 'quota', account, unit: 'stored bytes', limit: storedBytes, used: storedNow, added: bytes }
  }
  entry.reservedJobs += jobs
  entry.reservedBytes += bytes
  return null
}

export function bytesToStore(jobs: readonly Job[]): number {
  let bytes = 0
  for (const { messagesJson, responseFormatJson, callbackJson } of jobs) {
    bytes += Buffer.byteLength(messagesJson) + Buffer.byteLength(responseFormatJson)
    bytes += Buffer.byteLength(callbackJson ?? '')
  }
  return bytes
}
