/** Renders the page of the audit log, newest entries first. */
import { html } from 'htm/preact'
import type { AuditEntry, AuditList } from '../contract.ts'
import { dateAndTime, shortId } from '../format.ts'
import { Badge, Time } from '../parts/labels.ts'
import { AccountSearch, type Columns, NOTHING, Table, useList } from '../parts/list.ts'
import { PageTitle } from '../parts/sections.ts'
import { Empty, StateOf } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'

export function AuditPage() {
  const account = usePlace().query.get('account') ?? ''
  const page = useList<AuditList>('audit', { account })
  const { data, loading, reload } = page
  return html`<${PageTitle} title="Audit log">
      <button type="button" class="button" disabled=${loading} onClick=${reload}>Reload</button>
    <//>
    <${AccountSearch} label="Audit log entries of an account" class="filters" account=${account}
      onSearch=${(name: string) => navigate(address(['audit'], { account: name }))} />
    <${StateOf} of=${page} what="the audit log" />
    ${
      data &&
      data.acts.length > 0 &&
      html`<${Table} class="list audit-table" caption="Audit log entries, newest first" columns=${COLUMNS} rows=${data.acts} keyOf=${({ id }: AuditEntry) => id} names=${1} />`
    }
    ${
      data?.acts.length === 0 &&
      html`<${Empty} title=${account === '' ? 'The audit log is empty' : 'No entries for this account'}>
        ${
          account === ''
            ? html`<p>Admin actions in the dashboard, the admin API and the command line are recorded here.</p>`
            : html`<p><a href=${address(['audit'])}>All entries</a></p>`
        }
      <//>`
    }
    ${page.pages}`
}

/** Jobs and batches have pages, and their IDs are UUIDs. IDs of keys are not. */
const TARGET = /^(batch_)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

const COLUMNS: Columns<AuditEntry> = [
  [
    'When',
    ({ at }) => html`<${Time} at=${at} /><span class="muted wide">${dateAndTime(at)}</span>`,
    'audit-when',
  ],
  ['What', whatOf],
  ['Who', ({ who }) => who, 'wide breaks'],
  ['Account', (entry) => accountOf(entry) ?? NOTHING, 'wide'],
  ['Job or key', (entry) => targetOf(entry) ?? NOTHING, 'wide'],
  ['Details', (entry) => detailsOf(entry) ?? NOTHING, 'wide'],
  ['Outcome', outcomeOf],
]

/** A narrow screen hides the other columns, so this column also shows their contents. */
function whatOf(entry: AuditEntry) {
  const others = [accountOf(entry), targetOf(entry), detailsOf(entry)]
  return html`${entry.what}
    <span class="narrow-only muted breaks">${entry.who}</span>
    ${others.map((other) => other && html`<span class="narrow-only breaks">${other}</span>`)}`
}

function accountOf({ account }: AuditEntry) {
  return account === null
    ? null
    : html`<a class="breaks" href=${address(['accounts', account])}>${account}</a>`
}

function targetOf({ what, target }: AuditEntry) {
  if (target === null) return null
  const [, prefix = '', id = ''] = TARGET.exec(target) ?? []
  if (id === '') return html`<code class="breaks">${target}</code>`
  // The ID of a callback is its job's ID, or its batch's ID without the prefix.
  const page = prefix !== '' ? 'batches' : what.includes('callback') ? 'callbacks' : 'jobs'
  return html`<a class="mono" href=${address([page, target])} title=${target}>${prefix}${shortId(id)}</a>`
}

function detailsOf({ details }: AuditEntry) {
  const entries = Object.entries(details)
  if (entries.length === 0) return null
  const words = entries.map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return html`<code class="breaks">${words.join(', ')}</code>`
}

/** An entry without an outcome is in progress or was interrupted. The log does not show which. */
function outcomeOf({ outcome }: AuditEntry) {
  if (outcome === null) return html`<${Badge} state="in progress" word="in progress, or interrupted" />`
  const [, how, why = ''] = /^(failed|refused): (.*)$/s.exec(outcome) ?? []
  if (how === undefined) return html`<span class="breaks">${outcome}</span>`
  return html`<${Badge} state=${how} />${' '}<span class="breaks">${why}</span>`
}
