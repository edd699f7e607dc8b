/**
 * Runs a real store beside the reference store, which slows the simulation down. Each call runs on both at the moment that the
 * world decides, and the world waits until the real store has answered. Both results must agree. Nodes get the result of the
 * real store. The rules read the tables of the reference store.
 */
import { isDeepStrictEqual } from 'node:util'
import type { DueCallback } from '../../src/store/callback-store.ts'
import { type Claimed, type FailedJob, StoreUnavailable, WriteRejected } from '../../src/store/store.ts'
import { type Ledger, STORES_AGREE } from './ledger.ts'
import type { MemoryDatabase } from './memory-store/database.ts'
import type { MethodName, StoreCall } from './memory-store/memory-store.ts'
import type { RealStore } from './real-stores.ts'
import type { World } from './world.ts'

const BY_CLOCK: readonly MethodName[] = [
  'renew',
  'rescue',
  'revertCrashes',
  'absentNodes',
  'confirmCrashes',
  'claimBatches',
]
/** The results of these methods are lists without a meaningful order. */
const UNORDERED: readonly MethodName[] = [
  'takeCancelled',
  'claimsOf',
  'readEnded',
  'findMissing',
  'absentNodes',
  'queued',
]

type Method = (...args: readonly unknown[]) => unknown

export type CallEnd = { readonly value: unknown } | { readonly error: unknown }

export interface LockstepOptions {
  readonly real: RealStore
  readonly world: World
  readonly ledger: Ledger
  readonly db: MemoryDatabase
}

export class Lockstep {
  readonly #options: LockstepOptions

  constructor(options: LockstepOptions) {
    this.#options = options
  }

  /**
   * Returns the outcome on the real store.
   * @param runOnReference runs the call on the reference store, which follows the real store where the contract leaves a choice
   */
  async run(
    { name, args }: Pick<StoreCall, 'name' | 'args'>,
    runOnReference: () => CallEnd,
  ): Promise<CallEnd> {
    const { real, ledger, db } = this.#options
    // Once the stores have diverged, the results of the real store prove nothing.
    if (ledger.hasDiverged) return runOnReference()
    if (BY_CLOCK.includes(name)) await real.setClock(db.clockMs())
    const end = await endOf(async () => (real.store[name] as Method)(...args))
    const chosen = await this.#chosen(name, end)
    db.chosen = chosen
    const [one, other] = [runOnReference(), end].map((each) => plainEnd(name, each, chosen !== null))
    db.chosen = null
    if (!isDeepStrictEqual(one, other)) {
      const [argsText, oneText, otherText] = [args, one, other].map((value) => JSON.stringify(value))
      ledger.violate(STORES_AGREE, `${name} ${argsText}\n    gives ${otherText}\n    not   ${oneText}`)
    }
    return end
  }

  async #chosen(name: MethodName, end: CallEnd): Promise<ReadonlySet<string> | null> {
    if (name === 'expire') return this.#expired()
    return 'value' in end ? chosenBy(name, end.value, this.#options.db.shared) : null
  }

  /**
   * Returns the jobs that the real store has deleted. Each store decides when it deletes expired jobs: Postgres deletes whole
   * hours or days at once.
   */
  async #expired(): Promise<ReadonlySet<string>> {
    const { real, db } = this.#options
    return new Set(await real.store.findMissing([...db.jobs.keys()]))
  }
}

/**
 * Returns the jobs that the real store has taken, or null if the contract leaves it no choice. It may choose among overdue
 * jobs, and among callbacks due at the same time. Postgres may choose among all queued jobs, because it reads a whole route
 * from time to time.
 */
function chosenBy(name: MethodName, value: unknown, shared: boolean): ReadonlySet<string> | null {
  if (name === 'takeCallbacks') return new Set((value as DueCallback[]).map(({ jobId }) => jobId))
  if (name === 'failOverdue') return new Set((value as FailedJob[]).map(({ jobId }) => jobId))
  return name === 'claim' && shared ? new Set((value as Claimed).jobs.map(({ id }) => id)) : null
}

async function endOf(call: () => Promise<unknown>): Promise<CallEnd> {
  try {
    return { value: await call() }
  } catch (error) {
    return { error }
  }
}

/** Removes what callers cannot distinguish: absent fields, the order where none is guaranteed, and error messages. */
function plainEnd(name: MethodName, end: CallEnd, isFree: boolean): unknown {
  if ('error' in end) return { error: kindOf(end.error) }
  // The result says whether more is left to expire. The reference store counts only jobs and keys.
  if (name === 'expire') return {}
  const answer = isFree && name === 'claim' ? (end.value as Claimed).jobs : end.value
  // Postgres returns bytes as a Buffer, and SQLite as a Uint8Array.
  const plain = answer instanceof Uint8Array ? Buffer.from(answer) : answer
  const value: unknown = plain === undefined ? null : JSON.parse(JSON.stringify(plain))
  if (!Array.isArray(value) || !(isFree || UNORDERED.includes(name))) return { value }
  return { value: value.map((one) => JSON.stringify(Object.entries(one).sort())).sort() }
}

function kindOf(error: unknown): string {
  if (error instanceof StoreUnavailable) return 'unavailable'
  return error instanceof WriteRejected ? 'rejected' : String(error)
}
