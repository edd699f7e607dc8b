/** A bar chart of one month: tokens or jobs, by account or model. Names and values are shown as text. */
import { html } from 'htm/preact'
import { useId, useState } from 'preact/hooks'
import type { UsageRow, UsageSums } from '../contract.ts'
import { exact } from '../format.ts'
import { type Group, groupsBy, monthName, sumOf } from './read-usage.ts'

/** What the bars show. Each bar has two parts. */
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

/** There are at most this many bars. The smallest groups share the last one. */
const MAX_BARS = 10

export function UsageBars({ month }: { readonly month: Group<UsageRow> }) {
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

/** Returns the longest bars first. */
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

/** A choice between a few options, each a button. */
interface SegmentsProps<T extends string> {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [value: T, words: string])[]
  readonly onChange: (value: T) => void
}

function Segments<T extends string>({ label, value, options, onChange }: SegmentsProps<T>) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(
      ([one, words]) =>
        html`<button type="button" key=${one} aria-pressed=${one === value ? 'true' : 'false'} onClick=${() => onChange(one)}>${words}</button>`,
    )}
  </div>`
}
