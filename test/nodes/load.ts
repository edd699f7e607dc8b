/**
 * Sends requests to a fleet until the load is stopped, and keeps a ledger of what the callers were promised. The model server
 * answers slowly (`unhurried`), so some jobs are always in progress, but only some hundred per second. More would prove no
 * more, and would take the whole CPU.
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
import { during } from '../process/during.ts'
import { Ledger } from '../process/ledger.ts'
import type { Fleet } from './fleet.ts'

const BATCH = 10
/** A rejected caller waits this long before it tries again. Without a pause, the server could not recover. */
const AFTER_REFUSAL_MS = 50

/** Each answer takes this long. With 16 slots on each of three nodes, this allows at most 240 jobs per second. */
const ANSWER_MS = 200

export const unhurried: Script = () => (request, response, server) => {
  globalThis.setTimeout(() => reply.echo()(request, response, server), ANSWER_MS)
}

let loads = 0

export class Load {
  readonly ledger = new Ledger((content) => `echo: ${content}`)
  /** Each response with 503 must have a Retry-After. */
  refused = 0
  cutOff = 0
  readonly #fleet: Fleet
  readonly #asking: Promise<unknown>
  #over = false
  #accepted = 0

  constructor(fleet: Fleet, callers: number) {
    this.#fleet = fleet
    // Each load has its own contents, because others would be answered from the cache.
    const load = loads++
    const names = Array.from({ length: callers }, (_, index) => `load ${load}, caller ${index}`)
    this.#asking = Promise.all(names.map((name) => this.#askOn(name)))
    this.#asking.catch(() => {})
  }

  /** Resolves when this many more requests have been accepted. Rejects if a response was wrong. */
  async more(count: number): Promise<void> {
    const enough = this.#accepted + count
    await during(this.#asking, () => this.#accepted >= enough)
  }

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
        this.#accepted += 1
      }
    }
  }

  async #refuse({ headers }: Reply): Promise<void> {
    assert.ok(Number(headers['retry-after']) > 0, 'a 503 says when to come again')
    this.refused += 1
    await setTimeout(AFTER_REFUSAL_MS)
  }
}
