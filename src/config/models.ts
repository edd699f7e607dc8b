/** Converts the settings of the public models for admission. */
import type { Settings } from './settings.ts'

/**
 * For each public model the number of input tokens above which the exact count decides which model is used; infinite if it
 * decides nothing. Admission counts tokens exactly only above it.
 */
export function exactCountThresholds({ models }: Settings): ReadonlyMap<string, number> {
  return new Map(
    Object.entries(models).map(([name, { auto = [] }]) => {
      const sizes = auto.flatMap(({ up_to_tokens }) => up_to_tokens ?? [])
      return [name, Math.min(...sizes)]
    }),
  )
}
