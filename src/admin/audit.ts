/** The audit log as operators' acts write it: each is noted before it is done, and what came of it after. */
import type { Clock } from '../clock.ts'
import type { AuditStore, NewAct } from '../store/audit-store.ts'

/** What somebody is about to do: the same whether by the admin API or by a command (acts/). Details hold no contents and no secret. */
export interface Intended<T> extends Pick<NewAct, 'what'> {
  readonly account?: string | null
  /** The job or key. */
  readonly target?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly work: () => Promise<T>
  /** What came of it, in a few words. */
  readonly told: (result: T) => string
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

  /** Does what was intended. Where it cannot be noted it is not done, and this rejects. */
  async act<T>(who: string, intended: Intended<T>): Promise<T> {
    const { what, account = null, target = null, details = {}, work, told } = intended
    const id = this.#makeId()
    const detailsJson = JSON.stringify(details)
    await this.#store.noteAct({ id, atMs: this.#clock.nowMs(), who, what, account, target, detailsJson })
    let result: T
    try {
      result = await work()
    } catch (error) {
      await this.#end(id, `failed: ${messageOf(error)}`)
      throw error
    }
    await this.#end(id, told(result))
    return result
  }

  /** What was done is done: where its outcome cannot be noted the entry stays without one. */
  async #end(id: string, outcome: string): Promise<void> {
    await this.#store.endAct(id, outcome.slice(0, LONGEST_OUTCOME)).catch(() => {})
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
