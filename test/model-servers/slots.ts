/**
 * Limits a model server to a number of slots. The server generates that many answers at once, each takes a while, and the other
 * requests wait in their order. A client that closes its connection gives up its slot or its place in the queue.
 *
 *     const slots = new Slots({ slots: 1, answerMs: 2_000, clock })
 *     server.script = () => slots.hold(reply.text('Done.'))
 */
import type { ServerResponse } from 'node:http'
import { type Clock, systemClock } from '../../src/clock.ts'
import type { Reply } from '../model-server.ts'

export interface SlotsOptions {
  /** The default is 1. */
  readonly slots?: number
  /** An answer takes this long once it has a slot. The default is 0. */
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

  get queued(): number {
    return this.#queue.length
  }

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
