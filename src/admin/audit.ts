/** The audit log as operators' acts write it: each is noted before it is done, and what came of it after. */
import type { Clock } from '../clock.ts'
import type { AuditStore, NewAct } from '../store/audit-store.ts'

/** What somebody is about to do. Details hold no contents and no secret. */
export interface Intended extends Pick<NewAct, 'who' | 'what'> {
  readonly account?: string
  /** The job or key. */
  readonly target?: string
  readonly details?: Readonly<Record<string, unknown>>
}

const LONGEST_OUTCOME = 500

export class Audit {
  readonly #store: AuditStore
  readonly #clock: Pick<Clock, 'nowMs'>
  readonly #makeId: () => string

  constructor(store: AuditStore, clock: Pick<Clock, 'nowMs'>, makeId: () => string) {
    this.#store = store
    this.#clock = clock
    this.#makeId = makeId
  }

  /**
   * Does what was intended. Where it cannot be noted it is not done, and this rejects.
   * @param told what came of it, in a few words
   */
  async act<T>(intended: Intended, work: () => Promise<T>, told: (result: T) => string): Promise<T> {
    const { who, what, account = null, target = null, details = {} } = intended
    const id = this.#makeId()
    const detailsJson = JSON.stringify(details)
    await this.#store.noteAct({ id, atMs: this.#clock.nowMs(), who, what, account, target, detailsJson })
    try {
      const result = await work()
      await this.#store.endAct(id, told(result))
      return result
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      await this.#store.endAct(id, `failed: ${why}`.slice(0, LONGEST_OUTCOME))
      throw error
    }
  }
}
