/**
 * Decides where the rates of model servers are counted: in memory if there is a single node, or in a row of the database that
 * all nodes share. A node writes the row only if no other node has changed it since it was read.
 */
import type { Clock } from '../clock.ts'
import { knownToAll } from '../queue/current-prices.ts'
import type { NodeStore } from '../store/node-store.ts'
import { ownBook, type RateBook } from '../upstreams/rate.ts'
import { exchange, type Granted, newRateState, type RateState } from '../upstreams/rate-window.ts'

export interface SharedRatesOptions {
  readonly store: Pick<NodeStore, 'shared' | 'isKnownToAll' | 'readRate' | 'writeRate'>
  readonly node: string
  /** The wall clocks of the nodes must nearly agree: a difference of one second changes the rate by two percent. */
  readonly clock: Pick<Clock, 'nowMs' | 'steadyMs'>
  readonly warn: (message: string) => void
}

/** How often a node tries to write the row before it gives up for the moment. */
const MAX_TRIES = 20

/** Returns a function that returns the book of a rate, by the name of its upstream or target. */
export function sharedRates(options: SharedRatesOptions): (name: string) => RateBook {
  const { store, clock, warn } = options
  if (!store.shared) return () => ownBook(clock)
  /** The names of rates whose last write failed, so that each outage is reported once. */
  const failed = new Set<string>()
  // The rates are only shared if all nodes know them, because nodes of earlier versions ignore them.
  const isOn = knownToAll('rates', WARNING, options)
  return (name) => ({
    isOn,
    isShared: true,
    exchange: async (limits, ask) => {
      try {
        const granted = await exchangeShared(name, limits, ask, options)
        failed.delete(name)
        return granted
      } catch (error) {
        if (!failed.has(name)) warn(`the rate ${name} cannot be counted, so its jobs wait: ${String(error)}`)
        failed.add(name)
        throw error
      }
    },
  })
}

async function exchangeShared(
  name: string,
  limits: Parameters<RateBook['exchange']>[0],
  ask: Parameters<RateBook['exchange']>[1],
  { store, node, clock }: SharedRatesOptions,
): Promise<Granted> {
  const startMs = clock.steadyMs()
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const stored = await store.readRate(name)
    const nowMs = clock.nowMs()
    // A correction refers to an earlier call. The wait for the database must not make that call look more recent.
    const waitedMs = clock.steadyMs() - startMs
    const used = ask.used.map(({ agoMs, ...amounts }) => ({ agoMs: agoMs + waitedMs, ...amounts }))
    const state: RateState = stored === null ? newRateState(nowMs) : JSON.parse(stored.stateJson)
    const granted = exchange(state, limits, { node, ...ask, used }, nowMs)
    if (granted.isSame) return granted
    const next = { stateJson: JSON.stringify(state), version: stored?.version ?? 0 }
    if (await store.writeRate(name, next)) return granted
  }
  throw new Error(`Other nodes changed the rate ${name} in each of ${MAX_TRIES} tries.`)
}

const WARNING =
  'a node of an earlier version is running: until it stops, requests_per_minute and tokens_per_minute have no effect'
