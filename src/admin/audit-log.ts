/** Runs admin actions and records them in the audit log: an entry before an action starts, its outcome when it ends. */
import type { Clock } from '../clock.ts'
import { BATCH_PREFIX } from '../job/job-id.ts'
import type { AccountOf, AuditStore } from '../store/operator-store.ts'
import type { ActionTools, AnyAction, AnyInput } from './action.ts'
import { messageOf } from './deletion.ts'
import { Refusal } from './refusals.ts'

const MAX_OUTCOME_LENGTH = 500

export class AuditLog {
  readonly #store: AuditStore
  readonly #clock: Pick<Clock, 'nowMs'>
  readonly #makeId: () => string

  constructor(store: AuditStore, clock: Pick<Clock, 'nowMs'>, makeId: () => string) {
    this.#store = store
    this.#clock = clock
    this.#makeId = makeId
  }

  /** Rejects without running the action if its entry cannot be written. */
  async perform(who: string, action: AnyAction, input: AnyInput, tools: ActionTools): Promise<unknown> {
    const id = this.#makeId()
    const { account, jobId, keyId, tokenId, batchId } = input as Readonly<Record<string, string | undefined>>
    await this.#store.addAuditEntry({
      id,
      atMs: this.#clock.nowMs(),
      who,
      what: action.whatOf?.(input) ?? action.what,
      account: accountOf(jobId, batchId, keyId) ?? account ?? null,
      target: batchId === undefined ? (jobId ?? keyId ?? tokenId ?? null) : `${BATCH_PREFIX}${batchId}`,
      detailsJson: JSON.stringify(action.details?.(input) ?? {}),
    })
    let result: unknown
    try {
      result = await action.run(input, tools)
    } catch (error) {
      await this.#recordOutcome(id, `failed: ${messageOf(error)}`)
      throw error
    }
    await this.#recordOutcome(id, result instanceof Refusal ? result.outcome : action.outcome(result))
    return result
  }

  /** If the outcome cannot be written, the entry stays without one, because the action cannot be undone. */
  async #recordOutcome(id: string, outcome: string): Promise<void> {
    await this.#store.endAuditEntry(id, outcome.slice(0, MAX_OUTCOME_LENGTH)).catch(() => {})
  }
}

function accountOf(jobId?: string, batchId?: string, keyId?: string): AccountOf | undefined {
  if (jobId !== undefined) return { ofJob: jobId }
  if (batchId !== undefined) return { ofBatch: batchId }
  return keyId === undefined ? undefined : { ofKey: keyId }
}
