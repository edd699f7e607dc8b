/** Returns the prices of models, which have an effect only if every node on the database supports prices. */
import { type PricedModel, Prices } from '../job/cost.ts'
import type { Feature, NodeStore } from '../store/node-store.ts'

export interface CurrentPricesOptions {
  readonly models: Readonly<Record<string, PricedModel>>
  readonly store: Pick<NodeStore, 'isKnownToAll'>
  readonly warn: (message: string) => void
}

/** The function returns null while the prices have no effect. */
export type CurrentPrices = () => Prices | null

/**
 * Returns null if no model has a price. While a node of an earlier version is alive, the prices have no effect, because that
 * node would settle jobs without their cost, and overwrite costs that others stored.
 */
export function currentPrices({ models, store, warn }: CurrentPricesOptions): CurrentPrices | null {
  const prices = new Prices(models)
  if (prices.isEmpty) return null
  const isOn = knownToAll('prices', WARNING, { store, warn })
  return () => (isOn() ? prices : null)
}

/**
 * The returned function reports whether every live node knows the feature. It warns when it first finds that one does not, and
 * again whenever this happens after all did.
 */
export function knownToAll(
  feature: Feature,
  warning: string,
  { store, warn }: Pick<CurrentPricesOptions, 'store' | 'warn'>,
): () => boolean {
  let hasWarned = false
  return () => {
    const isKnown = store.isKnownToAll(feature)
    if (!isKnown && !hasWarned) warn(warning)
    hasWarned = !isKnown
    return isKnown
  }
}

const WARNING =
  'a node of an earlier version is running: until it stops, prices and caps in money have no effect, and jobs are not counted in money'
