/** Draws figures as SVG: bars, their range over the rounds, and a line at the target. */
import { writeFileSync } from 'node:fs'

export interface Bar {
  readonly label: string
  readonly value: number
  readonly min: number
  readonly max: number
  readonly ours: boolean
  readonly target?: number
}

export interface Panel {
  readonly title: string
  readonly unit: string
  readonly bars: readonly Bar[]
}

const WIDTH = 760
const LABELS = 320
const VALUES = 70
const ROW = 26
const BAR = 14
const PANEL_HEAD = 36
const HEAD = 64
const SCALE = WIDTH - LABELS - VALUES - 20

const STYLE = `
    text { font: 13px system-ui, sans-serif; fill: #24292f }
    .title { font-size: 17px; font-weight: 600 } .note { fill: #57606a; font-size: 12px }
    .ours { fill: #2f6fdb } .theirs { fill: #9aa4b0 } .range { stroke: #24292f; stroke-width: 1.2 }
    .target { stroke: #d1570b; stroke-width: 2; stroke-dasharray: 3 2 } .ground { fill: #ffffff }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .note { fill: #9198a1 } .range { stroke: #e6edf3 } .ground { fill: #0d1117 }
    }`

export function writePicture(path: URL, title: string, note: string, panels: readonly Panel[]): void {
  const parts: string[] = []
  let y = HEAD
  for (const panel of panels) {
    parts.push(...drawPanel(panel, y))
    y += PANEL_HEAD + panel.bars.length * ROW
  }
  const height = y + 16
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">
  <style>${STYLE}
  </style>
  <rect class="ground" width="${WIDTH}" height="${height}" rx="8"/>
  <text class="title" x="16" y="28">${escaped(title)}</text>
  <text class="note" x="16" y="48">${escaped(note)}</text>
  ${parts.join('\n  ')}
</svg>
`
  writeFileSync(path, svg)
}

function drawPanel({ title, unit, bars }: Panel, top: number): string[] {
  const most = Math.max(...bars.map(({ value, max, target }) => Math.max(value, max, target ?? 0)))
  const x = (value: number) => (LABELS + (Number.isFinite(value) ? value / most : 0) * SCALE).toFixed(1)
  const parts = [`<text x="16" y="${top + 20}" font-weight="600">${escaped(title)}</text>`]
  bars.forEach(({ label, value, min, max, ours, target }, index) => {
    const y = top + PANEL_HEAD + index * ROW
    const middle = y + BAR / 2
    const width = Number(x(value)) - LABELS
    parts.push(
      `<text x="${LABELS - 10}" y="${middle + 4}" text-anchor="end">${escaped(label)}</text>`,
      `<rect class="${ours ? 'ours' : 'theirs'}" x="${LABELS}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" rx="2"/>`,
      `<line class="range" x1="${x(min)}" y1="${middle}" x2="${x(max)}" y2="${middle}"/>`,
      `<text x="${WIDTH - 16}" y="${middle + 4}" text-anchor="end">${short(value)}${escaped(unit)}</text>`,
    )
    if (target !== undefined) {
      parts.push(
        `<line class="target" x1="${x(target)}" y1="${y - 4}" x2="${x(target)}" y2="${y + BAR + 4}"><title>target ${target}</title></line>`,
      )
    }
  })
  return parts
}

function short(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(3)
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
