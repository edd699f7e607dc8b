/**
 * Draws a chart over time on a canvas, with uPlot. The legend shows values as text, and a table shows all of them, for people
 * who cannot see the canvas.
 */
import { timeOfDay } from '../format.ts'

// `format.ts` corrects the browser's language, so it must be imported before uPlot.

import { html } from 'htm/preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { onThemeChange } from '../theme.ts'

export interface Series {
  readonly label: string
  /** `color` names a custom property in styles/colours.css, such as `--good`. */
  readonly color: string
  /** Each time has one value. Null means that there is none. */
  readonly values: readonly (number | null)[]
}

interface ChartProps {
  readonly title: string
  readonly unit: string
  /** The times are Unix seconds, ascending, at equal intervals. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
  readonly kind: 'lines' | 'stack'
}

/** In a stack, each series becomes the sum of itself and the previous series. */
function dataOf(
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
  // uPlot paints the series in order. The highest sum must be first, because the lower ones are painted over it.
  return [[...times], ...sums.reverse()]
}

export function Chart({ title, unit, times, series, format, kind }: ChartProps) {
  const id = useId()
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const [hovered, setHovered] = useState<number | null>(null)
  const [asTable, setAsTable] = useState(false)
  const [themeChanges, setThemeChanges] = useState(0)
  const shape = `${kind} ${series.map(({ label }) => label).join('\n')}`
  const latest = useRef({ times, series })
  latest.current = { times, series }

  useEffect(() => onThemeChange(() => setThemeChanges((count) => count + 1)), [])
  // New series or colours need a new plot. New values do not.
  useEffect(() => {
    const element = box.current
    if (!element || asTable) return
    const drawn = createPlot({ element, kind, format, onHover: setHovered, ...latest.current })
    plot.current = drawn
    const resized = new ResizeObserver(() => {
      drawn.setSize({ width: element.clientWidth, height: element.clientHeight })
    })
    resized.observe(element)
    return () => {
      resized.disconnect()
      drawn.destroy()
      plot.current = null
    }
  }, [shape, themeChanges, asTable])
  useEffect(() => {
    plot.current?.setData(dataOf(times, series, kind))
  }, [times, series, kind])

  const isEmpty = series.every(({ values }) => values.every((value) => value === null || value === 0))
  const index = hovered === null || hovered >= times.length ? null : hovered
  return html`<figure class="chart" aria-labelledby=${`${id}-title`}>
    <figcaption class="chart-head">
      <h3 id=${`${id}-title`}>${title} <span class="muted">${unit}</span></h3>
      <button type="button" class="quiet-button" aria-pressed=${asTable ? 'true' : 'false'}
        aria-label=${`${title} as a table`} onClick=${() => setAsTable(!asTable)}>Table</button>
    </figcaption>
    <ul class="legend">
      ${series.map(
        ({ label, color, values }) => html`<li key=${label}>
          <span class=${`swatch ${color.slice(2)}`}></span>${label}
          <span class="legend-value">${valueAt(values, index, format)}</span>
        </li>`,
      )}
      ${index !== null && html`<li class="legend-time">${timeOfDay(times[index] ?? 0)}</li>`}
    </ul>
    ${
      asTable
        ? html`<${ValuesTable} title=${title} times=${times} series=${series} format=${format} />`
        : html`<div class="plot" aria-hidden="true">
            <div ref=${box} class="plot-box"></div>
            ${isEmpty && html`<p class="plot-empty">No data in this period</p>`}
          </div>`
    }
  </figure>`
}

/** Returns the value under the pointer, or the latest value if there is no pointer. */
function valueAt(values: Series['values'], index: number | null, format: (value: number) => string): string {
  const value = index === null ? values.findLast((one) => one !== null) : values[index]
  return value === null || value === undefined ? '–' : format(value)
}

const ROWS = 20

function ValuesTable({ title, times, series, format }: Omit<ChartProps, 'unit' | 'kind'>) {
  const rows = times
    .map((time, index) => ({ time, index }))
    .slice(-ROWS)
    .reverse()
  return html`<div class="plot-table" tabindex="0" role="region" aria-label=${`${title}, values`}>
    <table>
      <thead><tr><th scope="col">Time</th>${series.map(({ label }) => html`<th scope="col" class="number">${label}</th>`)}</tr></thead>
      <tbody>
        ${rows.map(
          ({ time, index }) => html`<tr key=${time}>
            <th scope="row">${timeOfDay(time)}</th>
            ${series.map(({ values }) => html`<td class="number">${valueAt(values, index, format)}</td>`)}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

interface PlotOptions extends Pick<ChartProps, 'times' | 'series' | 'kind' | 'format'> {
  readonly element: HTMLElement
  readonly onHover: (index: number | null) => void
}

const FONT = '11px system-ui, sans-serif'

function createPlot({ element, times, series, kind, format, onHover }: PlotOptions): uPlot {
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
      // Half of the last time label needs room on the right.
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
          // Durations such as `1 min 40 s` are wider than numbers.
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
