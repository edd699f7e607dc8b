/** Runs admin actions on record: an entry is written before an action starts, and its outcome after it ends. */
import type { Clock } from '../clock.ts'
import type { AuditStore } from '../store/audit-store.ts'
import type { AdminAction } from './admin-action.ts'
import { messageOf } from './error-message.ts'

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

  /** Runs the action. If its entry cannot be written, the action does not run and this rejects. */
  async perform<T>(who: string, action: AdminAction<T>): Promise<T> {
    const { what, account = null, target = null, details = {}, run, describe } = action
    const id = this.#makeId()
    const detailsJson = JSON.stringify(details)
    await this.#store.addAuditEntry({
      id,
      atMs: this.#clock.nowMs(),
      who,
      what,
      account,
      target,
      detailsJson,
    })
    let result: T
    try {
      result = await run()
    } catch (error) {
      await this.#recordOutcome(id, `failed: ${messageOf(error)}`)
      throw error
    }
    await this.#recordOutcome(id, describe(result))
    return result
  }

  /** The action has run and cannot be undone, so an outcome that cannot be written leaves the entry without one. */
  async #recordOutcome(id: string, outcome: string): Promise<void> {
    await this.#store.endAuditEntry(id, outcome.slice(0, MAX_OUTCOME_LENGTH)).catch(() => {})
  }
}
