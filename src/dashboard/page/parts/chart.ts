/**
 * A chart over time, drawn by uPlot on a canvas. The legend shows the values as text, and a table has the same values for
 * people who cannot see the canvas.
 */
import { html } from 'htm/preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { timeOfDay } from '../format.ts'
import { onThemeChange } from '../theme.ts'
import { createPlot } from './plot.ts'
import { type ChartProps, dataOf, type Series } from './series.ts'

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
  // The plot is recreated when the series or the colours change, but not for new values.
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

/** Returns the value under the pointer, otherwise the latest value. */
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
