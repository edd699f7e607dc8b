/** What a chart shows: series over time. */
import type uPlot from 'uplot'

export interface Series {
  readonly label: string
  /** The name of a custom property in styles/colours.css, such as `--good`. */
  readonly color: string
  /** One for each time; null where there is none. */
  readonly values: readonly (number | null)[]
}

export interface ChartProps {
  readonly title: string
  /** What the values are, for the heading: `a minute`. */
  readonly unit: string
  /** Seconds, ascending and evenly spaced. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
  readonly kind: 'lines' | 'stack'
}

/** What uPlot draws: of a stack, each series on top of those before it. */
export function dataOf(
  times: readonly number[],
  series: readonly Series[],
  kind: ChartProps['kind'],
): uPlot.AlignedData {
  if (kind === 'lines') return [[...times], ...series.map(({ values }) => [...values])]
  let below = times.map(() => 0)
  const sums = series.map(({ values }) => {
    below = below.map((sum, index) => sum + (values[index] ?? 0))
    return below
  })
  // The whole stack is drawn first, and each lower part over it.
  return [[...times], ...sums.reverse()]
}
