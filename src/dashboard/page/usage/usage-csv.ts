/** Exports the usage that the page shows as a CSV file. The browser creates the file. */
import { html } from 'htm/preact'
import type { UsageRow } from '../contract.ts'
import { Icon } from '../parts/icon.ts'
import { saveAs } from '../parts/save-as.ts'
import type { UsageFilters } from './read-usage.ts'
import { SUMS } from './sums.ts'

const COLUMNS = ['month', 'account', 'model', ...SUMS] as const

function csvOf(rows: readonly UsageRow[]): string {
  const hasCost = rows.some(({ cost }) => cost !== undefined)
  const columns = hasCost ? ([...COLUMNS, 'cost'] as const) : COLUMNS
  const lines = rows.map((row) => columns.map((name) => cell(row[name] ?? '')))
  return [columns, ...lines].map((cells) => `${cells.join(',')}\r\n`).join('')
}

export interface CsvButtonProps {
  readonly rows: readonly UsageRow[]
  readonly filters: UsageFilters
}

export function CsvButton({ rows, filters: { account, month } }: CsvButtonProps) {
  const onClick = () => {
    const name = ['parley-usage', month, account].filter((part) => part !== '').join('-')
    saveAs(new Blob([csvOf(rows)], { type: 'text/csv;charset=utf-8' }), `${name}.csv`)
  }
  return html`<button type="button" class="button" disabled=${rows.length === 0} onClick=${onClick}><${Icon} name="down" />Download as CSV</button>`
}

function cell(value: string | number): string {
  const text = String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
