/** Creates clients of a Parley for tests, direct or through a network that fails. Their pauses end at once. */
import type { Clock } from '../../client/src/clock.ts'
import { Parley as Client, type ParleyOptions } from '../../client/src/index.ts'
import { type Lifetime, type Parley, startParley } from '../parley.ts'
import { type FaultyProxy, type ProxyOptions, startFaultyProxy } from './faulty-proxy.ts'

/** Longer than any of the client's pauses. */
const NEVER_S = 1_000_000

/** Pauses end at once and advance the time; timeouts of requests are never reached. */
export class HurriedClock implements Clock {
  /** The pauses so far, in milliseconds. */
  readonly pauses: number[] = []
  #ms = 0

  nowMs(): number {
    return this.#ms
  }

  steadyMs(): number {
    return this.#ms
  }

  after(ms: number, callback: () => void): () => void {
    if (ms >= NEVER_S * 1000) return () => {}
    const immediate = setImmediate(() => {
      this.pauses.push(ms)
      this.#ms += ms
      callback()
    })
    return () => clearImmediate(immediate)
  }
}

export function clientOf(
  { url }: { readonly url: string },
  apiKey: string,
  options: ParleyOptions = {},
): Client {
  return new Client({ baseUrl: url, apiKey, requestTimeout: NEVER_S, ...options })
}

export interface Faulty {
  readonly client: Client
  readonly proxy: FaultyProxy
  readonly clock: HurriedClock
}

/** Creates a client that connects to this Parley through a network that fails on request. */
export async function faultyClient(
  t: Lifetime,
  parley: Parley,
  key: string,
  { older = false, ...options }: ParleyOptions & ProxyOptions = {},
): Promise<Faulty> {
  const proxy = await startFaultyProxy(t, parley.url, { older })
  const clock = new HurriedClock()
  return { client: clientOf(proxy, key, { clock, ...options }), proxy, clock }
}

/** Starts a Parley with the simulator, and creates a client of it. */
export async function startWithClient(t: Lifetime, options: Parameters<typeof startParley>[1] = {}) {
  const parley = await startParley(t, options)
  return { parley, client: clientOf(parley, await parley.key()) }
}
