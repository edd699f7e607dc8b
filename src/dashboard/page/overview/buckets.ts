/** Groups metric samples into equal time steps for the charts. */
import type { MetricSample, Percentiles } from '../contract.ts'
import type { Series } from '../parts/chart.ts'

export interface Buckets {
  /** When each step starts, in Unix seconds. */
  readonly times: readonly number[]
  readonly stepSeconds: number
  /** The metric samples of each step, in order. */
  readonly points: readonly (readonly MetricSample[])[]
}

/** @param now the end of the last step, in Unix seconds */
export function bucketsOf(
  points: readonly MetricSample[],
  now: number,
  spanSeconds: number,
  stepSeconds: number,
): Buckets {
  const last = Math.floor(now / stepSeconds)
  const first = last - Math.ceil(spanSeconds / stepSeconds) + 1
  const times = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * stepSeconds)
  const filled: MetricSample[][] = times.map(() => [])
  for (const point of points) filled[Math.floor(point.at / stepSeconds) - first]?.push(point)
  return { times, stepSeconds, points: filled }
}

/** Converts counts to rates per minute over the time that the samples of a step cover. */
export function ratesOf({ points }: Buckets, read: (point: MetricSample) => number): (number | null)[] {
  return points.map((step) => {
    const seconds = step.reduce((sum, point) => sum + point.seconds, 0)
    return seconds === 0 ? null : (step.reduce((sum, point) => sum + read(point), 0) * 60) / seconds
  })
}

/** The maximum of each step. */
export function highestOf(
  { points }: Buckets,
  read: (point: MetricSample) => number | null,
): (number | null)[] {
  return points.map((step) => {
    const values = step.map(read).filter((value) => value !== null)
    return values.length === 0 ? null : Math.max(...values)
  })
}

export function percentilesOf(buckets: Buckets, read: (point: MetricSample) => Percentiles): Series[] {
  return [
    { label: 'p50', color: '--c1', values: highestOf(buckets, (point) => read(point).p50) },
    { label: 'p95', color: '--c2', values: highestOf(buckets, (point) => read(point).p95) },
    { label: 'p99', color: '--c3', values: highestOf(buckets, (point) => read(point).p99) },
  ]
}

/** Returns every name that occurs, in alphabetical order. */
export function namesOf(points: readonly MetricSample[], read: (point: MetricSample) => object): string[] {
  return [...new Set(points.flatMap((point) => Object.keys(read(point))))].sort()
}

export function sum(points: readonly MetricSample[], read: (point: MetricSample) => number): number {
  return points.reduce((total, point) => total + read(point), 0)
}

export const total = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, n) => sum + n, 0)
