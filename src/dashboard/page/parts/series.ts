/** The data of a chart: series over time. */
import type uPlot from 'uplot'

export interface Series {
  readonly label: string
  /** The name of a custom property in styles/colours.css, for example `--good`. */
  readonly color: string
  /** One value for each time; null if there is none. */
  readonly values: readonly (number | null)[]
}

export interface ChartProps {
  readonly title: string
  /** The unit of the values, for the heading, for example `a minute`. */
  readonly unit: string
  /** Unix seconds, ascending and evenly spaced. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
  readonly kind: 'lines' | 'stack'
}

/** Converts the series for uPlot. In a stack, each series is added to the sum of the previous ones. */
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
  // uPlot paints in order, so the full height comes first and the lower parts are painted over it.
  return [[...times], ...sums.reverse()]
}
