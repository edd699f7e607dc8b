/** Draws the charts of the overview. Each chart groups metric samples into equal time steps. */
import { html } from 'htm/preact'
import { useMemo } from 'preact/hooks'
import type { MetricSample, Percentiles } from '../contract.ts'
import { count, duration, figure } from '../format.ts'
import { Chart, type Series } from '../parts/chart.ts'

export interface ChartsProps {
  readonly points: readonly MetricSample[]
  readonly now: number
  /** The charts show a time range of this many seconds. */
  readonly span: number
}

/** This many steps show the shape of a chart, and leave room for a bar for each. */
const STEPS = 75
const PALETTE = ['--c1', '--c2', '--c4', '--c5', '--c6', '--c3']
const FAILURE_PALETTE = ['--bad', '--c2', '--c6', '--c5', '--c4']

export function Charts({ points, now, span }: ChartsProps) {
  const drawn = useMemo(() => {
    const buckets = bucketsOf(points, now, span, span / STEPS)
    return {
      times: buckets.times,
      outcomes: outcomesOf(buckets, points),
      depth: [
        { label: 'queued', color: '--c2', values: highestOf(buckets, ({ waiting }) => waiting) },
        { label: 'assigned', color: '--c1', values: highestOf(buckets, ({ assigned }) => assigned) },
      ],
      age: [
        {
          label: 'oldest queued job',
          color: '--c2',
          values: highestOf(buckets, ({ oldest_age_seconds: age }) => (age === null ? null : age * 1000)),
        },
      ],
      wait: percentilesOf(buckets, ({ wait_ms }) => wait_ms),
      run: percentilesOf(buckets, ({ run_ms }) => run_ms),
      tokens: tokensOf(buckets, points),
      callbacks: [
        {
          label: 'delivered',
          color: '--good',
          values: ratesOf(buckets, ({ callbacks }) => callbacks.delivered),
        },
        {
          label: 'failed attempts',
          color: '--c2',
          values: ratesOf(buckets, ({ callbacks }) => callbacks.failed_attempts),
        },
        {
          label: 'failed permanently',
          color: '--bad',
          values: ratesOf(buckets, ({ callbacks }) => callbacks.failed),
        },
      ],
      owed: [
        { label: 'owed', color: '--c1', values: highestOf(buckets, ({ callbacks_owed }) => callbacks_owed) },
      ],
    }
  }, [points, now, span])
  const { times } = drawn
  return html`<section class="charts" aria-label="Charts">
    <${Chart} title="Jobs by outcome" unit="per minute" kind="stack" times=${times} series=${drawn.outcomes} format=${figure} />
    <${Chart} title="Open jobs" unit="" kind="lines" times=${times} series=${drawn.depth} format=${count} />
    <${Chart} title="Age of the oldest queued job" unit="" kind="lines" times=${times} series=${drawn.age} format=${duration} />
    <${Chart} title="Queue time" unit="from creation to claim" kind="lines" times=${times} series=${drawn.wait} format=${duration} />
    <${Chart} title="Run time" unit="from claim to settlement" kind="lines" times=${times} series=${drawn.run} format=${duration} />
    <${Chart} title="Tokens by model" unit="per minute" kind="stack" times=${times} series=${drawn.tokens} format=${count} />
    <${Chart} title="Callbacks" unit="per minute" kind="stack" times=${times} series=${drawn.callbacks} format=${figure} />
    <${Chart} title="Pending callbacks" unit="" kind="lines" times=${times} series=${drawn.owed} format=${count} />
  </section>`
}

function outcomesOf(buckets: Buckets, points: readonly MetricSample[]): Series[] {
  const codes = namesOf(points, ({ jobs }) => jobs).filter((name) => name !== 'completed')
  return [
    { label: 'completed', color: '--good', values: ratesOf(buckets, ({ jobs }) => jobs.completed ?? 0) },
    ...codes.map((code, index) => ({
      label: code,
      color: FAILURE_PALETTE[index % FAILURE_PALETTE.length] ?? '--bad',
      values: ratesOf(buckets, ({ jobs }) => jobs[code] ?? 0),
    })),
  ]
}

function tokensOf(buckets: Buckets, points: readonly MetricSample[]): Series[] {
  return namesOf(points, ({ tokens }) => tokens).map((model, index) => ({
    label: model,
    color: PALETTE[index % PALETTE.length] ?? '--c1',
    values: ratesOf(buckets, ({ tokens }) => (tokens[model]?.input ?? 0) + (tokens[model]?.output ?? 0)),
  }))
}

interface Buckets {
  /** Each step starts at one of these Unix times. */
  readonly times: readonly number[]
  readonly stepSeconds: number
  readonly points: readonly (readonly MetricSample[])[]
}

/** @param now the end of the last step, in Unix seconds */
function bucketsOf(
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

/** Returns rates per minute. Each step is divided by the time that its samples cover, because samples may be missing. */
function ratesOf({ points }: Buckets, read: (point: MetricSample) => number): (number | null)[] {
  return points.map((step) => {
    const seconds = step.reduce((sum, point) => sum + point.seconds, 0)
    return seconds === 0 ? null : (step.reduce((sum, point) => sum + read(point), 0) * 60) / seconds
  })
}

function highestOf({ points }: Buckets, read: (point: MetricSample) => number | null): (number | null)[] {
  return points.map((step) => {
    const values = step.map(read).filter((value) => value !== null)
    return values.length === 0 ? null : Math.max(...values)
  })
}

function percentilesOf(buckets: Buckets, read: (point: MetricSample) => Percentiles): Series[] {
  return [
    { label: 'p50', color: '--c1', values: highestOf(buckets, (point) => read(point).p50) },
    { label: 'p95', color: '--c2', values: highestOf(buckets, (point) => read(point).p95) },
    { label: 'p99', color: '--c3', values: highestOf(buckets, (point) => read(point).p99) },
  ]
}

function namesOf(points: readonly MetricSample[], read: (point: MetricSample) => object): string[] {
  return [...new Set(points.flatMap((point) => Object.keys(read(point))))].sort()
}

export function sum(points: readonly MetricSample[], read: (point: MetricSample) => number): number {
  return points.reduce((total, point) => total + read(point), 0)
}

export const total = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, n) => sum + n, 0)
