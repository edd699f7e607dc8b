/** Deletes what has expired, a small step at a time, with pauses in which everything else goes first. */
import type { Clock } from '../clock.ts'
import type { Store } from '../store/store.ts'

/** Between steps while there is work. */
const STEP_PAUSE_MS = 20
/** Between looks when there is none. */
const IDLE_PAUSE_MS = 10_000

export class Retention {
  readonly #store: Pick<Store, 'expire'>
  readonly #clock: Clock
  readonly #retentionMs: number
  readonly #onTrouble: (error: unknown) => void
  #cancel: () => void = () => {}
  #stopped = false

  constructor(
    store: Pick<Store, 'expire'>,
    clock: Clock,
    retentionMs: number,
    onTrouble: (error: unknown) => void,
  ) {
    this.#store = store
    this.#clock = clock
    this.#retentionMs = retentionMs
    this.#onTrouble = onTrouble
  }

  begin(): void {
    this.#cancel = this.#clock.after(IDLE_PAUSE_MS, () => void this.#step())
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }

  async #step(): Promise<void> {
    let more = false
    try {
      more = await this.#store.expire({ nowMs: this.#clock.nowMs(), retentionMs: this.#retentionMs })
    } catch (error) {
      this.#onTrouble(error)
    }
    if (this.#stopped) return
    this.#cancel = this.#clock.after(more ? STEP_PAUSE_MS : IDLE_PAUSE_MS, () => void this.#step())
  }
}
