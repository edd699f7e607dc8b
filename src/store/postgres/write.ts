/** Gathers writes into statements of many rows, and sees each through to where its outcome is known. */
import type { Job } from '../../job/job.ts'
import { GroupCommit } from '../group-commit.ts'
import type { Acceptance, Accepted, Settlement } from '../store.ts'
import { type NewEndedJob, PostgresAccept } from './accept.ts'
import { weightOfJob } from './columns.ts'
import type { Database } from './database.ts'
import { OutcomeUnknown } from './errors.ts'
import type { QueueHead } from './queue-head.ts'
import { type SettledJob, settleAll } from './settle.ts'
import { eachAlone, untilCommitKnown } from './unknown-commit.ts'

/** Operations in one statement. */
export const MAX_GROUP = 512
/** Statements of a kind under way at once: the next gathers while one waits for the disk, and one while it is sent. */
export const IN_FLIGHT = 2
/** Characters in one statement: what more would gain is lost in its memory. */
const MAX_WEIGHT = 4 * 1024 * 1024

export interface GroupedWritesOptions {
  readonly database: Database
  readonly line: QueueHead
  /** Writes that may wait before acceptances are refused. */
  readonly maxQueued: number
  readonly onCommit?: (size: number, ms: number) => void
  /** Jobs have joined the line. */
  readonly onJoined: () => void
}

export class GroupedWrites {
  readonly #database: Database
  readonly #onJoined: () => void
  readonly #accepting: PostgresAccept
  readonly #acceptances: GroupCommit<Acceptance>
  readonly #ended: GroupCommit<NewEndedJob>
  readonly #settlements: GroupCommit<Settlement>
  /** Jobs of settlements that may have been carried out though their answer was lost. */
  readonly #doubtful = new Set<string>()

  constructor({ database, line, maxQueued, onCommit, onJoined }: GroupedWritesOptions) {
    this.#database = database
    this.#onJoined = onJoined
    this.#accepting = new PostgresAccept(database, line)
    const common = { inFlight: IN_FLIGHT, maxGroup: MAX_GROUP, maxQueued, ...(onCommit && { onCommit }) }
    this.#acceptances = new GroupCommit({
      ...common,
      weight: { of: weightOfAcceptance, max: MAX_WEIGHT },
      commit: (group) => this.#acceptAll(group),
    })
    this.#ended = new GroupCommit({
      ...common,
      weight: {
        of: ({ job, settlement }) => weightOfJob(job) + weightOfSettlement(settlement),
        max: MAX_WEIGHT,
      },
      commit: (group) => eachAlone(group, (some) => this.#acceptAllEnded(some)),
    })
    this.#settlements = new GroupCommit({
      ...common,
      weight: { of: weightOfSettlement, max: MAX_WEIGHT },
      commit: (group) => eachAlone(group, (some) => this.#settleAll(some)),
    })
  }

  accept(acceptance: Acceptance): Promise<Accepted> {
    return this.#acceptances.submit(acceptance, true)
  }

  acceptEnded(job: Job, settlement: Settlement): Promise<void> {
    return this.#ended.submit({ job, settlement }, true)
  }

  settle(settlement: Settlement): Promise<SettledJob> {
    return this.#settlements.submit(settlement)
  }

  /** Resolves when nothing waits and nothing is under way. */
  async drained(): Promise<void> {
    await Promise.all([this.#acceptances.drained(), this.#ended.drained(), this.#settlements.drained()])
  }

  /** Those with an idempotency key go one by one, each in a transaction of its own. */
  async #acceptAll(group: readonly Acceptance[]) {
    const plain = group.filter(({ idempotency }) => idempotency === null)
    const together = eachAlone(plain, (some) => this.#acceptPlain(some))
    const keyed = group.filter(({ idempotency }) => idempotency !== null)
    const alone = Promise.all(keyed.map((one) => eachAlone([one], (some) => this.#acceptKeyed(some))))
    const results = new Map([...zip(plain, await together), ...zip(keyed, (await alone).flat())])
    return group.map(
      (acceptance) => results.get(acceptance) ?? { error: new Error('an acceptance was lost') },
    )
  }

  async #acceptPlain(acceptances: readonly Acceptance[]): Promise<Accepted[]> {
    await untilCommitKnown(
      () => this.#accepting.accept(acceptances, 'first'),
      () => this.#accepting.accept(acceptances, 'again'),
    )
    this.#tellOfJoined(acceptances)
    return acceptances.map(() => ({ kind: 'accepted' }))
  }

  async #acceptKeyed(acceptances: readonly Acceptance[]): Promise<Accepted[]> {
    const [acceptance] = acceptances
    const idempotency = acceptance?.idempotency
    if (!acceptance || !idempotency) throw new Error('an acceptance lost its key')
    const accept = () => this.#accepting.acceptOnce(acceptance, idempotency)
    const accepted = await untilCommitKnown(accept, accept)
    if (accepted.kind === 'accepted') this.#tellOfJoined(acceptances)
    return [accepted]
  }

  #tellOfJoined(acceptances: readonly Acceptance[]): void {
    const some = acceptances.some(({ jobs }) => jobs.some(({ handedOff }) => !handedOff))
    if (some) this.#onJoined()
  }

  async #acceptAllEnded(ended: readonly NewEndedJob[]): Promise<undefined[]> {
    await untilCommitKnown(
      () => this.#accepting.acceptEnded(ended, 'first'),
      () => this.#accepting.acceptEnded(ended, 'again'),
    )
    return ended.map(() => undefined)
  }

  /** Rejects rather than repeats: whoever settles tries again until it is known, however long that takes. */
  async #settleAll(settlements: readonly Settlement[]): Promise<SettledJob[]> {
    try {
      const settled = await settleAll(this.#database, settlements, this.#doubtful)
      for (const { jobId } of settlements) this.#doubtful.delete(jobId)
      return settled
    } catch (error) {
      if (error instanceof OutcomeUnknown) for (const { jobId } of settlements) this.#doubtful.add(jobId)
      throw error
    }
  }
}

function weightOfAcceptance({ jobs }: Acceptance): number {
  return jobs.reduce((total, { job }) => total + weightOfJob(job), 0)
}

function weightOfSettlement({ outcome, receiptJson }: Settlement): number {
  const content = outcome.status === 'completed' ? outcome.contentJson : (outcome.error.raw_text ?? '')
  return 300 + content.length + receiptJson.length
}

function zip<A, B>(keys: readonly A[], values: readonly B[]): [A, B][] {
  return keys.flatMap((key, index) => {
    const value = values[index]
    return value === undefined ? [] : [[key, value] as [A, B]]
  })
}
