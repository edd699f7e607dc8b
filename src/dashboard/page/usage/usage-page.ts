/**
 * Renders the page of usage: a bar chart of one month, and below it each month with its totals and a row for each account and
 * model. The URL contains the filters.
 */
import { html } from 'htm/preact'
import { useId, useLayoutEffect, useState } from 'preact/hooks'
import type { UsageRow, UsageSums } from '../contract.ts'
import { amount, exact, NONE } from '../format.ts'
import { serverNow } from '../live.ts'
import { saveAs } from '../parts/copy-and-save.ts'
import { Segments, Select, TextField } from '../parts/field.ts'
import { Icon } from '../parts/labels.ts'
import { PageTitle } from '../parts/sections.ts'
import { Empty, StateOf, useReloadOnChange } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import {
  type Group,
  groupsBy,
  monthName,
  monthsUpTo,
  SUMS,
  sumOf,
  type UsageFilters,
  useUsage,
} from './read-usage.ts'

/** The filter offers this many months. The URL may contain an older one. */
const MONTHS = 24
/** The totals of a month change slowly, so reloads while jobs finish can be far apart. */
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
  // The back button restores earlier filters. A layout effect changes the field before the next key press, so no input is lost.
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
  /** `cut` is the last month, if only a part of it is loaded. */
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

/** The browser creates the file from the rows on the page. */
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

interface Measure {
  readonly name: string
  readonly parts: readonly {
    readonly label: string
    readonly color: string
    readonly of: (sums: UsageSums) => number
  }[]
}

const TOKENS: Measure = {
  name: 'Tokens',
  parts: [
    { label: 'input', color: 'c1', of: ({ input_tokens }) => input_tokens },
    { label: 'output', color: 'c4', of: ({ output_tokens }) => output_tokens },
  ],
}
const JOBS: Measure = {
  name: 'Jobs',
  parts: [
    { label: 'completed', color: 'good', of: ({ jobs, failed_jobs }) => jobs - failed_jobs },
    { label: 'failed', color: 'bad', of: ({ failed_jobs }) => failed_jobs },
  ],
}
const MEASURES = { tokens: TOKENS, jobs: JOBS } as const
const GROUPINGS = { account: (row: UsageRow) => row.account, model: (row: UsageRow) => row.model } as const

/** If there are more groups, the last bar combines the smallest ones. */
const MAX_BARS = 10

/** The names and values of the bars are shown as text, so nothing depends on their colours. */
function UsageBars({ month }: { readonly month: Group<UsageRow> }) {
  const id = useId()
  const [what, setWhat] = useState<keyof typeof MEASURES>('tokens')
  const [by, setBy] = useState<keyof typeof GROUPINGS>('account')
  const measure = MEASURES[what]
  const bars = longest(groupsBy(month.rows, GROUPINGS[by]), measure)
  const most = Math.max(1, ...bars.map(({ sums }) => lengthOf(measure, sums)))
  return html`<figure class="chart bars" aria-labelledby=${id}>
    <figcaption class="chart-head">
      <h2 id=${id}>${measure.name} by ${by} <span class="muted">${monthName(month.name)}</span></h2>
      <div class="bars-options">
        <${Segments} label="What to show" value=${what} options=${[['tokens', 'Tokens'], ['jobs', 'Jobs']]} onChange=${setWhat} />
        <${Segments} label="Group by" value=${by} options=${[['account', 'By account'], ['model', 'By model']]} onChange=${setBy} />
      </div>
    </figcaption>
    <ul class="legend">
      ${measure.parts.map(
        ({ label, color, of }) => html`<li key=${label}><span class=${`swatch ${color}`}></span>${label}
        <span class="legend-value">${exact(of(month.sums))}</span></li>`,
      )}
    </ul>
    <ul class="bar-list">
      ${bars.map(
        ({ name, sums }) => html`<li key=${name}>
        <span class="bar-name breaks">${name}</span>
        <span class="bar-track" aria-hidden="true">
          ${measure.parts.map(({ label, color, of }) => html`<span key=${label} class=${`bar-part ${color}`} style=${{ width: `${(of(sums) / most) * 100}%` }}></span>`)}
        </span>
        ${' '}<span class="bar-value">${exact(lengthOf(measure, sums))}</span>
      </li>`,
      )}
    </ul>
  </figure>`
}

function lengthOf({ parts }: Measure, sums: UsageSums): number {
  return parts.reduce((total, { of }) => total + of(sums), 0)
}

function longest(
  groups: readonly Group<UsageRow>[],
  measure: Measure,
): Pick<Group<UsageRow>, 'name' | 'sums'>[] {
  const sorted = groups.toSorted((one, other) => lengthOf(measure, other.sums) - lengthOf(measure, one.sums))
  if (sorted.length <= MAX_BARS) return sorted
  const rest = sorted.slice(MAX_BARS - 1)
  return [
    ...sorted.slice(0, MAX_BARS - 1),
    { name: `${rest.length} others`, sums: sumOf(rest.map(({ sums }) => sums)) },
  ]
}
