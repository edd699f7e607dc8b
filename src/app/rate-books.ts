/**
 * Where rates of model servers are counted: in the memory of a node that is alone, or in a row that nodes on one database share, of
 * which each writes the next version.
 */
import type { Clock } from '../clock.ts'
import type { NodeStore } from '../store/node-store.ts'
import { ownBook, type RateBook } from '../upstreams/rate.ts'
import { exchange, type Granted, newRateState, type RateState } from '../upstreams/rate-window.ts'

export interface RateBooksOptions {
  readonly store: Pick<NodeStore, 'shared' | 'isKnownToAll' | 'readRate' | 'writeRate'>
  readonly node: string
  /** Nodes must have about the same wall clock: a second of difference is two percent of the rate. */
  readonly clock: Pick<Clock, 'nowMs' | 'steadyMs'>
  readonly warn: (message: string) => void
}

/** After that many, the node asks again later. */
const MAX_TRIES = 20

/** Returns the books of a rate, by the name of its upstream or target. */
export function rateBooks(options: RateBooksOptions): (name: string) => RateBook {
  const { store, clock, warn } = options
  if (!store.shared) return () => ownBook(clock)
  let hasWarned = false
  // A node of an earlier version would send as much as it likes.
  const isOn = (): boolean => {
    const isKnown = store.isKnownToAll('rates')
    if (!isKnown && !hasWarned) warn(WARNING)
    hasWarned = !isKnown
    return isKnown
  }
  return (name) => ({
    isOn,
    isShared: true,
    exchange: (limits, ask) => exchangeShared(name, limits, ask, options),
  })
}

async function exchangeShared(
  name: string,
  limits: Parameters<RateBook['exchange']>[0],
  ask: Parameters<RateBook['exchange']>[1],
  { store, node, clock }: RateBooksOptions,
): Promise<Granted> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const stored = await store.readRate(name)
    const nowMs = clock.nowMs()
    const state: RateState = stored === null ? newRateState(nowMs) : JSON.parse(stored.stateJson)
    const granted = exchange(state, limits, { node, ...ask }, nowMs)
    if (granted.isSame) return granted
    const next = { stateJson: JSON.stringify(state), version: stored?.version ?? 0 }
    if (await store.writeRate(name, next)) return granted
  }
  throw new Error(`Other nodes wrote the rate ${name} each time.`)
}

const WARNING =
  'a node of an earlier version is running: until it stops, requests_per_minute and tokens_per_minute have no effect'
