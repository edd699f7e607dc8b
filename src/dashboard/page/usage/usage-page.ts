/** What accounts have used: by month, account and model. The filters are in the address. */
import { html } from 'htm/preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { serverNow } from '../live.ts'
import { Select, TextField } from '../parts/field.ts'
import { PageTitle } from '../parts/page-title.ts'
import { Empty, StateOf } from '../parts/state-of.ts'
import { useReloadOnChange } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import { type UsageFilters, useUsage } from './read-usage.ts'
import { groupsBy, monthName, monthsUpTo } from './sums.ts'
import { UsageBars } from './usage-bars.ts'
import { CsvButton } from './usage-csv.ts'
import { UsageTable } from './usage-table.ts'

/** Offered to choose from; an older one may stand in the address. */
const MONTHS = 24
/** How often it is read again while jobs end: sums of a month are in no hurry. */
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
      html`<${Empty} title=${isFiltered ? 'Nothing was used' : 'Nothing has been used yet'}>
        ${
          isFiltered
            ? html`<p>Widen the filters, or <a href=${address(['usage'])}>show all</a>.</p>`
            : html`<p>A job is counted when it ends.</p>`
        }
      <//>`
    }
    ${newest && html`<${UsageBars} month=${newest} />`}
    ${rows && rows.length > 0 && html`<${UsageTable} months=${months} cut=${next === null ? null : (rows.at(-1)?.month ?? null)} />`}
    ${
      rows &&
      next !== null &&
      html`<div class="read-on"><p class="hint">These are the first ${rows.length} rows; totals and bars are of these alone.</p>
        <button type="button" class="button" onClick=${usage.readOn}>Read on</button></div>`
    }
    ${
      rows &&
      rows.length > 0 &&
      html`<p class="hint">Jobs count in the month (UTC) in which they ended, and stay counted when they are deleted or expire. Tokens are as
        the model servers counted them. A kept answer costs none.</p>`
    }`
}

function Filters({ filters }: { readonly filters: UsageFilters }) {
  const [account, setAccount] = useState(filters.account)
  // The back button brings earlier filters; set before anybody can type, so that nothing typed is lost.
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
