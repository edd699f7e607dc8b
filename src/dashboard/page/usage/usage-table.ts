/** The usage table: each month with its totals, then a row per account and model. */
import { html } from 'htm/preact'
import type { UsageRow, UsageSums } from '../contract-usage.ts'
import { exact } from '../format.ts'
import { address } from '../router.ts'
import { type Group, monthName } from './sums.ts'

export interface UsageTableProps {
  readonly months: readonly Group<UsageRow>[]
  /** The last month, if it is not completely loaded; otherwise null. */
  readonly cut: string | null
}

export function UsageTable({ months, cut }: UsageTableProps) {
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
      </tr>
    </thead>
    ${months.map(
      ({ name, rows, sums }) => html`<tbody key=${name}>
      <tr class="month">
        <th scope="rowgroup">${monthName(name)}<span class="month-total">${name === cut ? 'total so far' : 'total'}</span></th>
        <td class="wide"></td>
        <${Cells} sums=${sums} />
      </tr>
      ${rows.map(
        (row) => html`<tr key=${`${row.account} ${row.model}`}>
        <th scope="row"><a class="breaks" href=${address(['accounts', row.account])}>${row.account}</a>
          <span class="narrow-only muted breaks">${row.model}</span></th>
        <td class="wide">${row.model}</td>
        <${Cells} sums=${row} />
      </tr>`,
      )}
    </tbody>`,
    )}
  </table>`
}

function Cells({ sums }: { readonly sums: UsageSums }) {
  return html`<td class="number">${exact(sums.jobs)}</td>
    <td class="number wide">${exact(sums.failed_jobs)}</td>
    <td class="number wide">${exact(sums.cache_hits)}</td>
    <td class="number wide">${exact(sums.calls)}</td>
    <td class="number">${exact(sums.input_tokens)}</td>
    <td class="number">${exact(sums.output_tokens)}</td>`
}
