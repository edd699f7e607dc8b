/**
 * Callers that keep sending requests to a fleet until they are stopped, and record in a ledger what they were promised. The model
 * server takes its time (`unhurried`), so there are always jobs in progress, but only hundreds per second: the maximum rate would
 * prove no more and take all of the CPU.
 *
 * ```ts
 * const models = await startModelServer({ script: unhurried })
 * const fleet = await startFleet(t, { nodes: 3, upstream: models.baseUrl })
 * const load = new Load(fleet, 8)
 * await load.more(100)
 * ```
 */
import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import { reply, type Script } from '../model-server.ts'
import type { Reply } from '../process/caller.ts'
import { Ledger } from '../process/ledger.ts'
import type { Fleet } from './fleet.ts'

const BATCH = 10
/** A rejected caller retries after this time. If all retried at once, the server could not recover. */
const AFTER_REFUSAL_MS = 50

/** With 16 slots at each of three nodes, at most 240 jobs per second. */
const ANSWER_MS = 200

export const unhurried: Script = () => (request, response, server) => {
  globalThis.setTimeout(() => reply.echo()(request, response, server), ANSWER_MS)
}

let loads = 0

export class Load {
  readonly ledger = new Ledger((content) => `echo: ${content}`)
  /** Responses with 503, each with a Retry-After. */
  refused = 0
  /** Requests whose response never arrived. */
  cutOff = 0
  readonly #fleet: Fleet
  readonly #asking: Promise<unknown>
  #over = false
  #accepted = 0
  #watchers: { count: number; resolve: () => void }[] = []

  constructor(fleet: Fleet, callers: number) {
    this.#fleet = fleet
    // A content that another load has sent would be answered from the cache.
    const load = loads++
    const names = Array.from({ length: callers }, (_, index) => `load ${load}, caller ${index}`)
    this.#asking = Promise.all(names.map((name) => this.#askOn(name)))
    this.#asking.catch(() => {})
  }

  /** Resolves when this many more requests have been accepted; rejects if a response was wrong. */
  async more(count: number): Promise<void> {
    const enough = new Promise<void>((resolve) =>
      this.#watchers.push({ count: this.#accepted + count, resolve }),
    )
    await Promise.race([enough, this.#asking])
  }

  /** Resolves when all callers have had their last response. */
  async stop(): Promise<void> {
    this.#over = true
    await this.#asking
  }

  async #askOn(name: string): Promise<void> {
    for (let asked = 0; !this.#over; asked++) {
      const content = `${name}, request ${asked}`
      const single = asked % 3 !== 0
      const contents = single
        ? [content]
        : Array.from({ length: BATCH }, (_, index) => `${content}, job ${index}`)
      const reply = await this.#fleet.ask((caller) =>
        single ? caller.single(content) : caller.batch(contents),
      )
      if (reply === null) this.cutOff += 1
      else if (reply.status === 503) await this.#refuse(reply)
      else {
        this.ledger.accepted(contents, reply)
        this.#accept()
      }
    }
  }

  async #refuse({ headers }: Reply): Promise<void> {
    assert.ok(Number(headers['retry-after']) > 0, 'a 503 says when to come again')
    this.refused += 1
    await setTimeout(AFTER_REFUSAL_MS)
  }

  #accept(): void {
    this.#accepted += 1
    for (const { resolve } of this.#watchers.filter(({ count }) => count <= this.#accepted)) resolve()
  }
}
