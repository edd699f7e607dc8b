/** Renders the pages of all batches, with filters, and of one batch with its progress, problems, running lines and results. */
import { html } from 'htm/preact'
import { admin, download } from '../api.ts'
import type { BatchDetails, BatchFile, BatchList, BatchSummary } from '../contract.ts'
import { amount, bytes, count, dateAndTime, duration, exact, figure, NONE, shortId } from '../format.ts'
import { CopyButton, saveAs } from '../parts/copy-and-save.ts'
import { ConfirmedAction, useAction } from '../parts/dialog.ts'
import { Badge, Icon, Time } from '../parts/labels.ts'
import { AccountSearch, type Columns, Table, useList } from '../parts/list.ts'
import { Facts, PageTitle, Panel } from '../parts/sections.ts'
import { Empty, StateOf, useReloadWhile, useResource } from '../resource.ts'
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

function Progress({ batch: { lines, batch_id } }: { readonly batch: BatchSummary }) {
  const ended = lines.completed + lines.failed
  const part = lines.total === 0 ? 0 : Math.floor((100 * ended) / lines.total)
  return html`<span class="progress"><progress max="100" value=${part} aria-label=${`Lines of ${batch_id} that have ended`}></progress> ${part}%</span>`
}

export function BatchPage({ id }: { readonly id: string }) {
  const batch = useResource<BatchDetails>(`/batches/${encodeURIComponent(id)}`)
  const isGone = batch.error?.status === 404
  const data = isGone ? null : batch.data
  useReloadWhile(batch.reload, data !== null && data.ended_at === null)
  return html`<p class="back-link"><a href=${address(['batches'])}><${Icon} name="back" />Batches</a></p>
    <${PageTitle} title="Batch" tab=${`Batch ${id.replace(/^batch_/, '').slice(0, 8)}`}>
      ${data && html`<${Badge} state=${data.status} word=${data.status.replace('_', ' ')} />`}
      ${data && isOpen(data) && html`<${CancelBatch} batch=${data} onChange=${batch.reload} />`}
    <//>
    <p class="id-line"><code class="breaks">${id}</code><${CopyButton} text=${id} what="the batch ID" small /></p>
    ${
      isGone
        ? html`<${Empty} title="Batch not found"><p>It never existed, or has expired. <a href=${address(['batches'])}>All batches</a></p><//>`
        : html`<${StateOf} of=${batch} what="the batch" />`
    }
    ${data && html`<${Details} batch=${data} />`}`
}

const isOpen = ({ status }: BatchDetails) => status === 'validating' || status === 'in_progress'

interface CancelBatchProps {
  readonly batch: BatchDetails
  readonly onChange: () => void
}

function CancelBatch({ batch, onChange }: CancelBatchProps) {
  const cancel = async () => {
    await admin(`/batches/${batch.batch_id}/cancel`, { body: {} })
    return 'The batch is being cancelled.'
  }
  return html`<${ConfirmedAction} label="Cancel batch…" title="Cancel this batch?" action="Cancel batch" back="Keep batch" danger work=${cancel} onEnd=${onChange}>
    <p>No further lines start, and those that run are cancelled: calls to a model that are in progress are aborted, and their answers
    are lost.</p>
    <p>The output file has the lines that were answered before, and the error file all others.</p>
  <//>`
}

function Details({ batch }: { readonly batch: BatchDetails }) {
  const { waiting, problems, running, output_file, error_file } = batch
  return html`${waiting && html`<p class="fault" role="status">No further lines start for now. ${waiting.message}</p>`}
    <${Facts} facts=${factsOf(batch)} />
    <${Panel} title="Results" wide>
      ${
        output_file || error_file
          ? html`<div class="panel-actions">
        ${output_file && html`<${ResultFile} batchId=${batch.batch_id} which="output" file=${output_file} />`}
        ${error_file && html`<${ResultFile} batchId=${batch.batch_id} which="error" file=${error_file} />`}
      </div>`
          : html`<p class="muted">${batch.ended_at === null ? 'The files appear when the batch has ended.' : 'There are no files, or they were deleted.'}</p>`
      }
    <//>
    ${
      problems.length > 0 &&
      html`<${Panel} title="What is wrong" wide>
        <${Table} caption="Problems by line" columns=${PROBLEMS} rows=${problems} />
      <//>`
    }
    ${
      running.total > 0 &&
      html`<${Panel} title=${`Running lines: ${exact(running.total)}`} wide>
        <${Table} class="list" caption="The first lines that run" columns=${RUNNING} rows=${running.first} />
      <//>`
    }`
}

function factsOf(batch: BatchDetails) {
  const { lines, lines_per_second: rate, estimated_end, usage, metadata, input_file } = batch
  const { cost, input_tokens, output_tokens } = usage
  const startedAt = batch.in_progress_at
  return [
    ['Account', html`<a href=${address(['accounts', batch.account])}>${batch.account}</a>`],
    ['Endpoint', batch.endpoint],
    ['Progress', html`<${Progress} batch=${batch} />`],
    ['Lines', `${exact(lines.completed)} answered, ${exact(lines.failed)} failed, of ${exact(lines.total)}`],
    ['Rate', rateText(rate)],
    ...(estimated_end === null ? [] : [['Estimated end', html`<${Time} at=${estimated_end} />`]]),
    ['Created', dateAndTime(batch.created_at)],
    ...(batch.ended_at === null
      ? [['Deadline', dateAndTime(batch.deadline)]]
      : [
          ['Ended', dateAndTime(batch.ended_at)],
          ['Run time', startedAt === null ? '–' : duration((batch.ended_at - startedAt) * 1000)],
        ]),
    ['Tokens', `${count(input_tokens)} in, ${count(output_tokens)} out`],
    ...(cost === undefined ? [] : [['Cost', amount(cost)]]),
    ['Input file', input_file === null ? 'deleted' : `${input_file.filename} (${bytes(input_file.bytes)})`],
    ...(Object.keys(metadata).length === 0 ? [] : [['Metadata', metadataText(metadata)]]),
  ]
}

function rateText(perSecond: number | null): string {
  if (perSecond === null) return NONE
  return perSecond >= 1 ? `${figure(perSecond)} lines a second` : `${figure(60 * perSecond)} lines a minute`
}

const metadataText = (metadata: BatchDetails['metadata']) =>
  Object.entries(metadata)
    .map(([key, value]) => `${key}: ${value}`)
    .join(', ')

const PROBLEMS: Columns<BatchDetails['problems'][number]> = [
  ['Line', ({ line }) => line ?? '–', 'number'],
  ['Code', ({ code }) => html`<span class="code-word">${code}</span>`],
  ['Message', ({ message }) => message, 'breaks'],
]

const RUNNING: Columns<BatchDetails['running']['first'][number]> = [
  ['Line', ({ line }) => exact(line), 'number'],
  [html`<code>custom_id</code>`, ({ custom_id }) => custom_id, 'breaks'],
  [
    'Job',
    ({ job_id }) =>
      html`<a class="mono" href=${address(['jobs', job_id])} title=${job_id}>${shortId(job_id)}</a>`,
  ],
]

interface ResultFileProps {
  readonly batchId: string
  readonly which: 'output' | 'error'
  readonly file: BatchFile
}

/** The page requests the file with the admin token, and the browser then saves it. A plain link could not send the token. */
function ResultFile({ batchId, which, file }: ResultFileProps) {
  const work = async () => {
    saveAs(await download(`/batches/${batchId}/${which}`), file.filename)
    return `The ${which} file was downloaded.`
  }
  const { busy, run } = useAction(work, () => {})
  return html`<button type="button" class="button" disabled=${busy} onClick=${run}>
    <${Icon} name="down" />${which === 'output' ? 'Output file' : 'Error file'} <span class="muted">${bytes(file.bytes)}</span>
  </button>`
}
