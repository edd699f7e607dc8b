/** Computes percentiles of latencies, in milliseconds. */
export interface Latencies {
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
}

export function summarise(latencies: readonly number[]): Latencies {
  const sorted = Float64Array.from(latencies).sort()
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) }
}
