/** How many wrong admin tokens each address has sent of late. Who sends many has to wait, whatever it sends next. */
import { isIPv6 } from 'node:net'
import type { Clock } from '../../clock.ts'

/** Wrong tokens an address may send in a minute. */
export const WRONG_TOKENS = 10
export const WINDOW_MS = 60_000
/** Addresses counted at once; beyond that the one counted for longest is forgotten. */
const ADDRESSES = 10_000

interface Window {
  wrong: number
  readonly endsMs: number
}

export class TokenGuesses {
  readonly #clock: Clock
  readonly #windows = new Map<string, Window>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How long the address has to wait; 0 where it need not. */
  waitMs(address: string): number {
    const window = this.#windows.get(networkOf(address))
    if (!window || window.wrong < WRONG_TOKENS) return 0
    return Math.max(0, window.endsMs - this.#clock.steadyMs())
  }

  count(address: string): void {
    const network = networkOf(address)
    const nowMs = this.#clock.steadyMs()
    let window = this.#windows.get(network)
    if (!window || window.endsMs <= nowMs) {
      window = { wrong: 0, endsMs: nowMs + WINDOW_MS }
      // At the end again, since the first is forgotten first.
      this.#windows.delete(network)
      this.#windows.set(network, window)
    }
    window.wrong += 1
    const [oldest] = this.#windows.keys()
    if (this.#windows.size > ADDRESSES && oldest !== undefined) this.#windows.delete(oldest)
  }
}

/** An IPv6 host has all of a /64 to itself; an IPv4 address may be written as one. */
function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped?.[1] !== undefined) return mapped[1]
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('::')
  const groups = head.split(':').filter((group) => group !== '')
  const rest = (tail ?? '').split(':').filter((group) => group !== '')
  const zeros = Array<string>(Math.max(0, 8 - groups.length - rest.length)).fill('0')
  return [...groups, ...zeros, ...rest].slice(0, 4).join(':')
}
