/**
 * Compares the sums of quotas with the stored data in random histories of everything that adds, ends or removes jobs, some of
 * it concurrently. After each step, the sums of each account must equal the texts of the jobs that can still be read. A failure
 * prints the seed and the shortest history that shows the difference.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Job, Outcome } from '../../src/job/job.ts'
import { CANCELLED_ERROR_JSON, CANCELLED_RECEIPT_JSON } from '../../src/job/results-without-call.ts'
import type { Store } from '../../src/store/store.ts'
import { LONG } from '../support/long-form.ts'
import {
  acceptance,
  DAY_MS,
  firstClaim,
  inPlace,
  type MakePlace,
  now,
  type OpenPlace,
  restartTime,
  START_MS,
  settlement,
} from './fixtures.ts'
import { largeJob, outcomeBytes, requestBytes } from './quotas.ts'
import { addAccounts, claimNext, storeEnded } from './steps.ts'

const ACCOUNTS = ['one', 'two']
const NODE = 'node-a'
const RETENTION_MS = 7 * DAY_MS
const FOR_EVER = { nowMs: START_MS, retentionMs: 1e15 }
const CANCELLED_BYTES = CANCELLED_ERROR_JSON.length + CANCELLED_RECEIPT_JSON.length

interface StoredJob {
  readonly id: string
  readonly account: string
  bytes: number
  isOpen: boolean
  attempt: number
}

class History {
  readonly #open: OpenPlace
  #jobs: StoredJob[] = []

  constructor(open: OpenPlace) {
    this.#open = open
  }

  get store(): Store {
    return this.#open.store
  }

  async check(): Promise<void> {
    for (const account of ACCOUNTS) {
      const jobs = this.#jobs.filter((job) => job.account === account)
      assert.deepEqual(await this.store.quotaUse(account), {
        openJobs: jobs.filter(({ isOpen }) => isOpen).length,
        storedBytes: jobs.reduce((sum, { bytes }) => sum + bytes, 0),
      })
    }
  }

  /** If the store has group commits, all jobs are in the same one. */
  async accept(account: string, sizes: readonly number[], handedOff: boolean): Promise<void> {
    const jobs = sizes.map((which) => largeJob(account, which))
    await Promise.all(jobs.map((job) => this.store.accept(acceptance([job], { handedOff, node: NODE }))))
    this.#add(jobs, true, handedOff ? 1 : 0)
  }

  async addEnded(account: string, which: number): Promise<void> {
    const job = largeJob(account, which)
    const outcome: Outcome = { status: 'completed', contentJson: JSON.stringify('ü'.repeat(which)) }
    await storeEnded(this.store, job, settlement(firstClaim(job), { outcome }))
    this.#add([job], false, 1)
    const [added] = this.#jobs.slice(-1)
    if (added) added.bytes += outcomeBytes(outcome, '{}')
  }

  #add(jobs: readonly Job[], isOpen: boolean, attempt: number): void {
    for (const job of jobs) {
      this.#jobs.push({ id: job.id, account: job.account, bytes: requestBytes(job), isOpen, attempt })
    }
  }

  async claim(limit: number): Promise<void> {
    for (const { id, attempt } of await claimNext(this.store, NODE, limit)) {
      const job = this.#jobs.find((one) => one.id === id)
      if (job) job.attempt = attempt
    }
  }

  async end(pick: number, how: 'settle' | 'cancel' | 'both'): Promise<void> {
    const job = this.#jobs[pick % this.#jobs.length]
    if (!job) return
    const outcome: Outcome = { status: 'completed', contentJson: JSON.stringify('é'.repeat(pick)) }
    const claim = { jobId: job.id, attempt: job.attempt }
    const [settled, cancelled] = await Promise.all([
      how === 'cancel' ? 'stale' : this.store.settle(settlement(claim, { outcome, node: NODE })),
      how === 'settle' ? 'ended before' : this.store.cancelJob(job.id, now.ms),
    ])
    assert.ok(settled !== 'settled' || cancelled !== 'cancelled')
    if (settled === 'settled') job.bytes += outcomeBytes(outcome, '{}')
    if (cancelled === 'cancelled') job.bytes += CANCELLED_BYTES
    if (settled === 'settled' || cancelled === 'cancelled') job.isOpen = false
  }

  async delete(pick: number): Promise<void> {
    const job = this.#jobs[pick % this.#jobs.length]
    if (!job) return
    await Promise.all([this.store.deleteJob(job.id), this.store.deleteJob(job.id)])
    if (!job.isOpen) this.#jobs = this.#jobs.filter((one) => one !== job)
  }

  async deleteJobsOf(account: string): Promise<void> {
    await this.store.deleteJobsOf(account, '00000000-0000-0000-0000-000000000000')
    this.#jobs = this.#jobs.filter((job) => job.isOpen || job.account !== account)
  }

  async expire(days: number): Promise<void> {
    now.ms += days * DAY_MS
    while (await this.store.expire({ nowMs: now.ms, retentionMs: RETENTION_MS }));
    await this.#forgetDeleted()
  }

  async #forgetDeleted(): Promise<void> {
    const found = await Promise.all(
      this.#jobs.map(({ account, id }) => this.store.read(account, id, FOR_EVER)),
    )
    this.#jobs = this.#jobs.filter((_, index) => found[index] !== null)
  }

  async crash(): Promise<void> {
    await this.store.close()
    this.#open.store = await this.#open.place.open()
    // At its start, a store drops partitions that have expired by its own clock.
    await this.#forgetDeleted()
    await this.check()
    await this.store.rescue('node-b', now.ms)
  }
}

type Step = (history: History) => Promise<void>

function step<Drawn>(
  weight: number,
  drawn: fc.Arbitrary<Drawn>,
  name: string,
  run: (history: History, drawn: Drawn) => Promise<void>,
) {
  const arbitrary = drawn.map((value): Step => {
    const one: Step = (history) => run(history, value)
    return Object.assign(one, { [fc.toStringMethod]: () => `${name}(${JSON.stringify(value)})` })
  })
  return { weight, arbitrary }
}

const account = fc.constantFrom(...ACCOUNTS)
const sizes = fc.array(fc.nat(50), { minLength: 1, maxLength: 5 })
const ends = fc.tuple(fc.nat(200), fc.constantFrom('settle' as const, 'cancel' as const, 'both' as const))
const steps = fc.oneof(
  step(4, fc.tuple(account, sizes, fc.boolean()), 'accept', (h, args) => h.accept(...args)),
  step(2, fc.tuple(account, fc.nat(50)), 'addEnded', (h, args) => h.addEnded(...args)),
  step(2, fc.integer({ min: 1, max: 4 }), 'claim', (h, limit) => h.claim(limit)),
  step(5, ends, 'end', (h, args) => h.end(...args)),
  step(2, fc.nat(200), 'delete', (h, pick) => h.delete(pick)),
  step(1, account, 'deleteJobsOf', (h, of) => h.deleteJobsOf(of)),
  step(2, fc.nat(9), 'expire', (h, days) => h.expire(days)),
  step(1, fc.constant(0), 'crash', (h) => h.crash()),
)

export function quotaModel(name: string, makePlace: MakePlace): void {
  test(`${name}: the sums of quotas are what is stored, through random histories`, async () => {
    const drawn = fc.array(steps, { maxLength: LONG ? 100 : 40, size: 'max' })
    const histories = fc.asyncProperty(drawn, (history) =>
      inPlace(makePlace, async (open) => {
        restartTime()
        const real = new History(open)
        await addAccounts(real.store, ...ACCOUNTS)
        // This creates partitions, if the store has them.
        await real.expire(0)
        for (const take of history) {
          await take(real)
          await real.check()
        }
      }),
    )
    await fc.assert(histories, { numRuns: LONG ? 500 : 15, endOnFailure: !LONG })
  })
}
