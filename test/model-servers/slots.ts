/**
 * Slots of a model server: so many answers are generated at once, each takes a while, and the other requests wait inside
 * the server in their order. A client that closes its connection gives its slot, or its place in the queue, up.
 *
 *     const slots = new Slots({ slots: 1, answerMs: 2_000, clock })
 *     server.script = () => slots.hold(reply.text('Done.'))
 */
import type { ServerResponse } from 'node:http'
import { type Clock, systemClock } from '../../src/clock.ts'
import type { Reply } from '../model-server.ts'

export interface SlotsOptions {
  /** How many answers are generated at once; 1 if absent. */
  readonly slots?: number
  /** How long an answer takes once it has a slot; 0 if absent. */
  readonly answerMs?: number
  readonly clock?: Clock
}

export class Slots {
  readonly #slots: number
  readonly #answerMs: number
  readonly #clock: Clock
  readonly #queue: (() => void)[] = []
  #busy = 0

  constructor({ slots = 1, answerMs = 0, clock = systemClock }: SlotsOptions = {}) {
    this.#slots = slots
    this.#answerMs = answerMs
    this.#clock = clock
  }

  /** Requests waiting for a slot. */
  get queued(): number {
    return this.#queue.length
  }

  /** The reply, sent when its request has held a slot for the duration of an answer. */
  hold(then: Reply): Reply {
    return (request, response, server) => {
      const begin = () => {
        this.#busy++
        const cancel = this.#clock.after(this.#answerMs, () => then(request, response, server))
        response.once('close', () => {
          cancel()
          this.#busy--
          this.#queue.shift()?.()
        })
      }
      if (this.#busy < this.#slots) begin()
      else this.#wait(response, begin)
    }
  }

  #wait(response: ServerResponse, begin: () => void): void {
    const waiting = () => {
      response.off('close', leave)
      begin()
    }
    const leave = () => this.#queue.splice(this.#queue.indexOf(waiting), 1)
    response.once('close', leave)
    this.#queue.push(waiting)
  }
}
