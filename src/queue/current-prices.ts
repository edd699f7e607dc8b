/** The prices of models, as long as every node on the database knows them. */
import { type PricedModel, Prices } from '../job/cost.ts'
import type { NodeStore } from '../store/node-store.ts'

export interface CurrentPricesOptions {
  readonly models: Readonly<Record<string, PricedModel>>
  readonly store: Pick<NodeStore, 'isKnownToAll'>
  readonly warn: (message: string) => void
}

/** Null while the prices have no effect. */
export type CurrentPrices = () => Prices | null

/**
 * A node of an earlier version would settle jobs without their cost, and lose what others wrote. While one is alive, nobody
 * counts. Returns null if no model has a price.
 */
export function currentPrices({ models, store, warn }: CurrentPricesOptions): CurrentPrices | null {
  const prices = new Prices(models)
  if (prices.isEmpty) return null
  let hasWarned = false
  return () => {
    if (store.isKnownToAll('prices')) {
      hasWarned = false
      return prices
    }
    if (!hasWarned) warn(WARNING)
    hasWarned = true
    return null
  }
}

const WARNING =
  'a node of an earlier version is running: until it stops, prices and caps in money have no effect, and jobs are not counted in money'
