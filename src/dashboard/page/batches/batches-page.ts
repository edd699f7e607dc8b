/** The page of all batches, or of those that have not ended, with their progress. */
import { html } from 'htm/preact'
import type { BatchList, BatchSummary } from '../contract.ts'
import { exact, shortId } from '../format.ts'
import { Badge, Time } from '../parts/labels.ts'
import { AccountSearch, useList } from '../parts/list.ts'
import { PageTitle } from '../parts/sections.ts'
import { type Columns, Table } from '../parts/table.ts'
import { Empty, StateOf, useReloadWhile } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'

export function BatchesPage() {
  const { query } = usePlace()
  const open = query.get('open') === 'true'
  const account = query.get('account') ?? ''
  const filters = { open: open ? 'true' : '', account }
  const batches = useList<BatchList>('batches', filters)
  const { data } = batches
  useReloadWhile(batches.reload, batches.isFirst)
  const states = [
    ['all', {}],
    ['open', { open: 'true' }],
  ] as const
  return html`<${PageTitle} title="Batches" />
    <div class="filters">
      <nav class="segments" aria-label="State of the batches">
        ${states.map(
          ([name, state]) => html`<a key=${name} href=${address(['batches'], { ...state, account })}
          aria-current=${open === (name === 'open') ? 'page' : undefined}>${name}</a>`,
        )}
      </nav>
      <${AccountSearch} label="Batches of an account" class="inline-form" account=${account}
        onSearch=${(name: string) => navigate(address(['batches'], { ...filters, account: name }))} />
    </div>
    <${StateOf} of=${batches} what="the batches" />
    ${data && data.batches.length > 0 && html`<${Table} class="list" caption="Batches, newest first" columns=${COLUMNS} rows=${data.batches} keyOf=${idOf} />`}
    ${
      data?.batches.length === 0 &&
      html`<${Empty} title=${account !== '' ? 'No such batches of this account' : open ? 'No batches are open' : 'No batches yet'}>
      <p>A batch runs every line of a file: <code>POST /v1/batches</code>, or <code>parley batches create</code>.</p><//>`
    }
    ${batches.pages}`
}

const idOf = ({ batch_id }: BatchSummary) => batch_id

const COLUMNS: Columns<BatchSummary> = [
  ['Batch', nameOf],
  [
    'Status',
    ({ status, waiting }) =>
      html`<${Badge} state=${status} word=${waiting ? 'waiting' : status.replace('_', ' ')} />`,
  ],
  ['Account', ({ account }) => account, 'wide'],
  ['Progress', (batch) => html`<${Progress} batch=${batch} />`, 'wide'],
  ['Lines', ({ lines }) => exact(lines.total), 'number wide'],
  ['Failed', ({ lines }) => exact(lines.failed), 'number wide'],
  ['Created', ({ created_at }) => html`<${Time} at=${created_at} />`, 'number'],
]

function nameOf({ batch_id, account, lines }: BatchSummary) {
  return html`<a class="mono" href=${address(['batches', batch_id])} title=${batch_id}>${shortId(batch_id.replace(/^batch_/, ''))}</a>
    <span class="narrow-only muted breaks">${account} · ${exact(lines.completed + lines.failed)} of ${exact(lines.total)}</span>`
}

/** A bar that shows how many lines of a batch have ended. */
export function Progress({ batch: { lines, batch_id } }: { readonly batch: BatchSummary }) {
  const ended = lines.completed + lines.failed
  const part = lines.total === 0 ? 0 : Math.floor((100 * ended) / lines.total)
  return html`<span class="progress"><progress max="100" value=${part} aria-label=${`Lines of ${batch_id} that have ended`}></progress> ${part}%</span>`
}
