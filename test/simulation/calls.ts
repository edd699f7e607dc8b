/**
 * Records the calls of jobs as the simulated model servers see them. Checks that no call comes too early, and that a job
 * crashes only few model servers.
 */

import type { UpstreamError } from '../../src/upstreams/model-server.ts'
import {
  BACKOFF_FACTOR,
  FIRST_BACKOFF_MS,
  JITTER,
  MAX_RETRY_AFTER_MS,
} from '../../src/upstreams/retry-after.ts'
import { type Ledger, TOO_EARLY } from './ledger.ts'
import { UPSTREAMS } from './plan.ts'
import type { World } from './world.ts'

export interface JobCall {
  readonly process: string
  readonly account: string
  readonly tag: string
  readonly upstream: string
}

interface Failure {
  readonly atMs: number
  readonly times: number
}

const CRASHES = 'a job crashes few model servers'
const MOST_CRASHES_BY_SCHEMA = 3
/**
 * A job that crashes model servers even without its schema crashes at most this many: as many as pauses fit into the patience,
 * and some after answers that ended a pause early.
 */
const MOST_CRASHES = 24

export class Calls {
  readonly #world: World
  readonly #ledger: Ledger
  readonly #isPatient: boolean
  /** Maps a process, an account and an upstream to the earliest time of the next call. */
  readonly #notBefore = new Map<string, number>()
  /** Maps jobs and upstreams to the last failure. An answer removes the failures of its job at all upstreams. */
  readonly #failures = new Map<string, Failure>()
  /** Maps a process and a job to the time of the last call. */
  readonly #lastMs = new Map<string, number>()
  /**
   * Counts the crashes that the jobs of each tag caused, as far as the service can know. Nobody learns of the crashes of an
   * interrupted run, so these do not count.
   */
  readonly #crashes = new Map<string, number>()

  constructor(world: World, ledger: Ledger, isPatient: boolean) {
    this.#world = world
    this.#ledger = ledger
    this.#isPatient = isPatient
  }

  /** @param knownMs when the process learned that the job is assigned to it, or null if unknown */
  sent(call: JobCall, knownMs: number | null): void {
    const { process, account, tag, upstream } = call
    const { nowMs } = this.#world
    this.#lastMs.set(`${process} ${account} ${tag}`, nowMs)
    const untilMs = this.#notBefore.get(`${process} ${account} ${upstream}`) ?? nowMs
    // Jobs without patience call even if the call will probably fail.
    if (this.#isPatient && untilMs - nowMs > 1)
      this.#ledger.violate(
        TOO_EARLY,
        `${tag} calls ${upstream} ${untilMs - nowMs} ms before its Retry-After is over`,
      )
    const failure = this.#failures.get(nameOf(call))
    if (failure === undefined || knownMs === null || knownMs >= failure.atMs) return
    const leastMs = FIRST_BACKOFF_MS * BACKOFF_FACTOR ** (failure.times - 1) * (1 - JITTER)
    const pausedMs = nowMs - failure.atMs
    if (pausedMs < leastMs - 1)
      this.#ledger.violate(TOO_EARLY, `${tag} calls ${upstream} again after ${pausedMs} of ${leastMs} ms`)
  }

  /** @param error null if the reply is an answer */
  replied(call: JobCall, error: UpstreamError | null, knownMs: number | null): void {
    const name = nameOf(call)
    if (error === null) {
      // A repair is a new request, which begins with the first target.
      for (const upstream of UPSTREAMS) this.#failures.delete(nameOf({ ...call, upstream }))
      return
    }
    const { nowMs } = this.#world
    const before = this.#failures.get(name)
    const isOfThisRun = before !== undefined && knownMs !== null && knownMs < before.atMs
    this.#failures.set(name, { atMs: nowMs, times: isOfThisRun ? Math.min(2, before.times + 1) : 1 })
    if (error.retryAfterMs === null) return
    const place = `${call.process} ${call.account} ${call.upstream}`
    const untilMs = nowMs + Math.min(error.retryAfterMs, MAX_RETRY_AFTER_MS)
    this.#notBefore.set(place, Math.max(this.#notBefore.get(place) ?? 0, untilMs))
  }

  hasCalled(process: string, account: string, tag: string, sinceMs: number): boolean {
    return (this.#lastMs.get(`${process} ${account} ${tag}`) ?? Number.NEGATIVE_INFINITY) >= sinceMs
  }

  crashed({ account, tag }: JobCall, hasSchema: boolean): void {
    const name = crashName(account, tag, hasSchema)
    const crashes = (this.#crashes.get(name) ?? 0) + 1
    this.#crashes.set(name, crashes)
    const { jobs } = this.#ledger.callsOf(account, tag)
    if (crashes > (hasSchema ? MOST_CRASHES_BY_SCHEMA : MOST_CRASHES) * jobs)
      this.#ledger.violate(CRASHES, `${tag} of ${account}: ${crashes} by ${jobs}`)
  }

  /** A run of the job was interrupted, so the service forgets the crashes of that run. */
  forgotten(account: string, tag: string): void {
    for (const hasSchema of [true, false]) this.#crashes.delete(crashName(account, tag, hasSchema))
  }
}

function crashName(account: string, tag: string, hasSchema: boolean): string {
  return `${account} ${tag} ${hasSchema}`
}

function nameOf({ process, account, tag, upstream }: JobCall): string {
  return `${process} ${account} ${tag} ${upstream}`
}
