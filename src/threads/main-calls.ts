/** Calls from a request thread to the main thread, each with its answer. */
import { TransientMap } from '../transient-map.ts'
import type { JobCells, ToMain, ToThread } from './messages.ts'
import type { TurnPort } from './turn-port.ts'

/** What answers a call. */
export type Answer = Extract<
  ToThread,
  readonly [
    kind: 'forward' | 'caller' | 'accepted' | 'unavailable' | 'ended' | 'not ended' | 'record',
    call: number,
    ...rest: unknown[],
  ]
>

export interface CreateCall {
  readonly call: number
  readonly answer: Promise<Answer>
}

export class MainCalls {
  readonly #port: Pick<TurnPort<ToMain>, 'send'>
  readonly #open = new TransientMap<number, (answer: Answer) => void>()
  #last = 0

  constructor(port: Pick<TurnPort<ToMain>, 'send'>) {
    this.#port = port
  }

  answered(answer: Answer): void {
    const [, call] = answer
    const resolve = this.#open.get(call)
    this.#open.delete(call)
    resolve?.(answer)
  }

  authenticate(key: string): Promise<Answer> {
    const call = this.#next()
    this.#port.send(['authenticate', call, key])
    return this.#answer(call)
  }

  read(keyId: string, jobId: string): Promise<Answer> {
    const call = this.#next()
    this.#port.send(['read', call, keyId, jobId])
    return this.#answer(call)
  }

  create(keyId: string, bodyBytes: number, waitMs: number | null, jobs: readonly JobCells[]): CreateCall {
    const call = this.#next()
    this.#port.send(['create', call, keyId, bodyBytes, waitMs, jobs])
    return { call, answer: this.#answer(call) }
  }

  /** The client of the create has hung up. */
  leave(call: number): void {
    this.#port.send(['leave', call])
  }

  /** The response to the create is written, or its client is gone. */
  sent(call: number): void {
    this.#port.send(['sent', call])
  }

  #next(): number {
    this.#last += 1
    return this.#last
  }

  #answer(call: number): Promise<Answer> {
    return new Promise((resolve) => this.#open.set(call, resolve))
  }
}
