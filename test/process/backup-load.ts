/** Callers that keep sending requests to a server, with a record of which jobs were acknowledged and how long that took. */
import assert from 'node:assert/strict'
import { type Caller, idsOf, type Reply } from './caller.ts'

const JOBS_OF_A_BATCH = 10
const PADDING = 'x'.repeat(2000)

interface Timed {
  readonly atMs: number
  readonly ms: number
}

export class BackupLoad {
  /** The IDs of the jobs, in the order in which they were acknowledged. */
  readonly ids: string[] = []
  readonly #singles: Timed[] = []
  readonly #watchers = new Set<() => void>()
  #over = false
  #asking: Promise<unknown> = Promise.resolve()

  start(callers: readonly Caller[]): void {
    this.#asking = Promise.all(callers.map((caller, index) => this.#askOnAndOn(caller, `caller ${index}`)))
    // A test that waits gets the error through `#tell`; `stop` throws it as well.
    this.#asking.catch(() => this.#tell())
  }

  /** Resolves when this many jobs have been acknowledged. */
  reached(jobs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (this.ids.length < jobs) return
        this.#watchers.delete(look)
        resolve()
      }
      this.#watchers.add(look)
      this.#asking.catch(reject)
      look()
    })
  }

  async stop(): Promise<void> {
    this.#over = true
    await this.#asking
  }

  /**
   * Returns the 99th percentile of the latencies of single creates that started within these times; null if there were none.
   */
  p99Ms(within: (atMs: number) => boolean): number | null {
    const took = this.#singles.filter(({ atMs }) => within(atMs)).map(({ ms }) => ms)
    return took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? null
  }

  async #askOnAndOn(caller: Caller, name: string): Promise<void> {
    for (let asked = 0; !this.#over; asked++) {
      const content = `${name}, request ${asked}: ${PADDING}`
      if (asked % 4 === 0) this.acknowledge(await caller.batch(Array(JOBS_OF_A_BATCH).fill(content)))
      else {
        const atMs = performance.now()
        this.acknowledge(await caller.single(content))
        this.#singles.push({ atMs, ms: performance.now() - atMs })
      }
    }
  }

  acknowledge(reply: Reply): void {
    assert.ok(reply.status === 200 || reply.status === 202, `${reply.status}: ${reply.text}`)
    this.ids.push(...idsOf(reply))
    this.#tell()
  }

  #tell(): void {
    for (const look of this.#watchers) look()
  }
}
