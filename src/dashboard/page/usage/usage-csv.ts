/** Exports the usage that the page shows as a CSV file. The browser creates the file. */
import { html } from 'htm/preact'
import type { UsageRow } from '../contract.ts'
import { Icon } from '../parts/icon.ts'
import type { UsageFilters } from './read-usage.ts'
import { SUMS } from './sums.ts'

const COLUMNS = ['month', 'account', 'model', ...SUMS] as const

export function csvOf(rows: readonly UsageRow[]): string {
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
    const url = URL.createObjectURL(new Blob([csvOf(rows)], { type: 'text/csv;charset=utf-8' }))
    const link = document.createElement('a')
    link.href = url
    link.download = `${['parley-usage', month, account].filter((part) => part !== '').join('-')}.csv`
    link.click()
    // The download has started when `click` returns, so the URL is no longer needed.
    URL.revokeObjectURL(url)
  }
  return html`<button type="button" class="button" disabled=${rows.length === 0} onClick=${onClick}><${Icon} name="down" />Download as CSV</button>`
}

function cell(value: string | number): string {
  const text = String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
