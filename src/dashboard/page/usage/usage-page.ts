/** The page of usage: each month with its totals, then a row per account and model. The filters are part of the URL. */
import { html } from 'htm/preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import type { UsageRow, UsageSums } from '../contract.ts'
import { amount, exact, NONE } from '../format.ts'
import { serverNow } from '../live.ts'
import { Select, TextField } from '../parts/field.ts'
import { Icon } from '../parts/icon.ts'
import { PageTitle } from '../parts/page-title.ts'
import { saveAs } from '../parts/save-as.ts'
import { Empty, StateOf, useReloadOnChange } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import {
  type Group,
  groupsBy,
  monthName,
  monthsUpTo,
  SUMS,
  type UsageFilters,
  useUsage,
} from './read-usage.ts'
import { UsageBars } from './usage-bars.ts'

/** The number of months in the filter. The URL can name an older month. */
const MONTHS = 24
/** The shortest interval between reloads while jobs finish. Monthly totals change slowly. */
const EVERY_MS = 10_000

export function UsagePage() {
  const { query } = usePlace()
  const filters = { account: query.get('account') ?? '', month: query.get('month') ?? '' }
  const usage = useUsage(filters)
  const { rows, next, error } = usage
  useReloadOnChange(usage.reload, next === null, EVERY_MS)
  const months = groupsBy(rows ?? [], ({ month }) => month)
  const [newest] = months
  const isFiltered = filters.account !== '' || filters.month !== ''
  return html`<${PageTitle} title="Usage"><${CsvButton} rows=${rows ?? []} filters=${filters} /><//>
    <${Filters} filters=${filters} />
    ${error || !rows ? html`<${StateOf} of=${{ ...usage, data: rows, loading: rows === null }} what="the usage" />` : null}
    ${
      rows?.length === 0 &&
      html`<${Empty} title=${isFiltered ? 'No matching usage' : 'No usage has been recorded yet'}>
        ${
          isFiltered
            ? html`<p>Change the filters, or <a href=${address(['usage'])}>show all</a>.</p>`
            : html`<p>Jobs are counted when they finish.</p>`
        }
      <//>`
    }
    ${newest && html`<${UsageBars} month=${newest} />`}
    ${rows && rows.length > 0 && html`<${UsageTable} months=${months} currency=${usage.currency} cut=${next === null ? null : (rows.at(-1)?.month ?? null)} />`}
    ${
      rows &&
      next !== null &&
      html`<div class="read-on"><p class="hint">Showing the first ${rows.length} rows. Totals and bars cover only these rows.</p>
        <button type="button" class="button" onClick=${usage.loadMore}>Load more</button></div>`
    }
    ${
      rows &&
      rows.length > 0 &&
      html`<p class="hint">Jobs count in the month (UTC) in which they finished, and stay counted after they are deleted or expire. Tokens are
        as counted by the model servers. Cached responses use no tokens.</p>`
    }`
}

function Filters({ filters }: { readonly filters: UsageFilters }) {
  const [account, setAccount] = useState(filters.account)
  // The back button restores earlier filters. A layout effect sets the field before the next key press, so that no input is lost.
  useLayoutEffect(() => setAccount(filters.account), [filters.account])
  const set = (change: Partial<UsageFilters>) =>
    navigate(address(['usage'], { ...filters, account: account.trim(), ...change }))
  const onSubmit = (event: Event) => {
    event.preventDefault()
    set({})
  }
  return html`<form class="filters" role="search" aria-label="Usage" onSubmit=${onSubmit}>
    <${Select} label="Month" value=${filters.month} options=${[['', 'all'], ...monthsAnd(filters.month)]} onChange=${(month: string) => set({ month })} />
    <${TextField} label="Account" value=${account} onInput=${setAccount} placeholder="any" spellcheck=${false} autocomplete="off" />
    <button type="submit" class="button">Search</button>
  </form>`
}

function monthsAnd(chosen: string): (readonly [string, string])[] {
  const months = monthsUpTo(serverNow(), MONTHS)
  const all = chosen === '' || months.includes(chosen) ? months : [...months, chosen]
  return all.map((month) => [month, monthName(month)])
}

interface UsageTableProps {
  readonly months: readonly Group<UsageRow>[]
  readonly currency: string | null
  /** The last month, if it is not completely loaded; otherwise null. */
  readonly cut: string | null
}

function UsageTable({ months, currency, cut }: UsageTableProps) {
  const hasCost = months.some(({ sums }) => sums.cost !== undefined)
  return html`<table class="list usage-table">
    <caption class="visually-hidden">Usage by month, account and model, newest month first</caption>
    <thead>
      <tr>
        <th scope="col">Account</th>
        <th scope="col" class="wide">Model</th>
        <th scope="col" class="number">Jobs</th>
        <th scope="col" class="number wide">Failed</th>
        <th scope="col" class="number wide">Cache hits</th>
        <th scope="col" class="number wide">Calls</th>
        <th scope="col" class="number">Input tokens</th>
        <th scope="col" class="number">Output tokens</th>
        ${hasCost && html`<th scope="col" class="number">Cost${currency && ` (${currency})`}</th>`}
      </tr>
    </thead>
    ${months.map(
      ({ name, rows, sums }) => html`<tbody key=${name}>
      <tr class="month">
        <th scope="rowgroup">${monthName(name)}<span class="month-total">${name === cut ? 'total so far' : 'total'}</span></th>
        <td class="wide"></td>
        <${Cells} sums=${sums} hasCost=${hasCost} />
      </tr>
      ${rows.map(
        (row) => html`<tr key=${`${row.account} ${row.model}`}>
        <th scope="row"><a class="breaks" href=${address(['accounts', row.account])}>${row.account}</a>
          <span class="narrow-only muted breaks">${row.model}</span></th>
        <td class="wide">${row.model}</td>
        <${Cells} sums=${row} hasCost=${hasCost} />
      </tr>`,
      )}
    </tbody>`,
    )}
  </table>`
}

function Cells({ sums, hasCost }: { readonly sums: UsageSums; readonly hasCost: boolean }) {
  return html`<td class="number">${exact(sums.jobs)}</td>
    <td class="number wide">${exact(sums.failed_jobs)}</td>
    <td class="number wide">${exact(sums.cache_hits)}</td>
    <td class="number wide">${exact(sums.calls)}</td>
    <td class="number">${exact(sums.input_tokens)}</td>
    <td class="number">${exact(sums.output_tokens)}</td>
    ${hasCost && html`<td class="number">${sums.cost === undefined ? NONE : amount(sums.cost)}</td>`}`
}

const COLUMNS = ['month', 'account', 'model', ...SUMS] as const

function csvOf(rows: readonly UsageRow[]): string {
  const hasCost = rows.some(({ cost }) => cost !== undefined)
  const columns = hasCost ? ([...COLUMNS, 'cost'] as const) : COLUMNS
  const lines = rows.map((row) => columns.map((name) => cell(row[name] ?? '')))
  return [columns, ...lines].map((cells) => `${cells.join(',')}\r\n`).join('')
}

interface CsvButtonProps {
  readonly rows: readonly UsageRow[]
  readonly filters: UsageFilters
}

/** Exports the usage that the page shows as a CSV file. The browser creates the file. */
function CsvButton({ rows, filters: { account, month } }: CsvButtonProps) {
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
