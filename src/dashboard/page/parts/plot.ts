/** Configures uPlot: the axes, colours and shapes of a chart. */
import './browser-language.ts'
import uPlot from 'uplot'
import { type ChartProps, dataOf } from './series.ts'

export interface PlotOptions extends Pick<ChartProps, 'times' | 'series' | 'kind' | 'format'> {
  readonly element: HTMLElement
  readonly onHover: (index: number | null) => void
}

const FONT = '11px system-ui, sans-serif'

export function createPlot({ element, times, series, kind, format, onHover }: PlotOptions): uPlot {
  const style = getComputedStyle(document.documentElement)
  const colorOf = (name: string) => style.getPropertyValue(name).trim()
  const axis = {
    stroke: colorOf('--muted'),
    font: FONT,
    grid: { stroke: colorOf('--line'), width: 1 },
    ticks: { show: false },
  }
  const drawn = series.map(({ label, color }) =>
    kind === 'lines' ? lineOf(label, colorOf(color)) : barOf(label, colorOf(color)),
  )
  return new uPlot(
    {
      width: element.clientWidth,
      height: element.clientHeight,
      // The padding leaves room on the right for half of the last time label.
      padding: [8, 18, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: kind === 'lines' } },
      scales: { x: { time: true }, y: { range: (_plot, _least, most) => [0, Math.max(most * 1.1, 1)] } },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 24,
          space: 70,
          values: (_plot, splits) => splits.map(minuteOf),
        },
        {
          ...axis,
          // Durations such as `1 min 40 s` are wider than counts.
          size: (_plot, labels) => Math.max(52, ...(labels ?? []).map((label) => label.length * 6 + 14)),
          space: 34,
          values: (_plot, splits) => splits.map((value) => format(value)),
        },
      ],
      series: [{}, ...(kind === 'stack' ? drawn.reverse() : drawn)],
      hooks: { setCursor: [({ cursor }) => onHover(cursor.idx ?? null)] },
    },
    dataOf(times, series, kind),
    element,
  )
}

function lineOf(label: string, stroke: string): uPlot.Series {
  return { label, stroke, width: 1.75, spanGaps: false, points: { size: 4, fill: stroke } }
}

function barOf(label: string, fill: string): uPlot.Series {
  const paths = uPlot.paths.bars?.({ size: [0.72, 14], radius: 0.15 })
  return { label, fill, stroke: fill, width: 0, points: { show: false }, ...(paths && { paths }) }
}

const minute = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const minuteOf = (seconds: number): string => minute.format(seconds * 1000)
