/** What was really sent to models for a job, and what came back, in words. */
import { html } from 'htm/preact'
import type {
  JobContent,
  JobDetails,
  ReceiptCall,
  Receipt as ReceiptData,
  SettingsInForce,
} from '../contract.ts'
import { duration } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { CodeBlock } from '../parts/code-block.ts'
import { Facts } from '../parts/facts.ts'
import { useResource } from '../resource.ts'

export interface ReceiptProps {
  readonly content: JobContent
  readonly job: JobDetails
}

export function Receipt({ content, job }: ReceiptProps) {
  const settings = useResource<SettingsInForce>('/settings')
  const { receipt } = content
  if (!receipt) return html`<p class="muted">There is none until the job has ended.</p>`
  if (job.cache_hit) {
    return html`<p>The answer of an identical earlier job was used (<code>message_cache_ttl</code>); nothing was sent upstream.</p>`
  }
  const upstreams = settings.data?.settings.upstreams as Upstreams | undefined
  return html`<${Facts} facts=${factsOf(receipt, content, job, upstreams)} />
    <h3>Calls, in the order made</h3>
    ${receipt.calls.length === 0 ? html`<p class="muted">No model was called.</p>` : html`<${Calls} calls=${receipt.calls} />`}
    ${receipt.repair && html`<${Repair} repair=${receipt.repair} job=${job} />`}`
}

type Upstreams = Readonly<Record<string, { readonly roles?: string; readonly structured_output?: string }>>

const FORMS = {
  text: 'text: no form was asked of the model',
  json: 'any JSON value, asked for by an instruction',
  schema: 'JSON with the schema',
} as const

function factsOf(
  receipt: ReceiptData,
  content: JobContent,
  job: JobDetails,
  upstreams: Upstreams | undefined,
) {
  const upstream = upstreams?.[(job.target ?? receipt.calls.at(-1)?.target ?? '').split('/')[0] ?? '']
  const schemaMode =
    receipt.form !== 'schema'
      ? FORMS[receipt.form]
      : receipt.strict
        ? `${FORMS.schema}, strict: it meets the strict rules`
        : `${FORMS.schema}, not strict: not every property is required, or others are allowed`
  return [
    ['Target chosen', job.target ?? 'none gave an answer'],
    ['Roles', rolesOf(content, upstream?.roles)],
    ['Answer form', schemaMode],
    ...(upstream?.structured_output && receipt.form === 'schema'
      ? [['Held to it by', `${upstream.structured_output} (the upstream's setting now)`]]
      : []),
  ]
}

function rolesOf({ messages }: JobContent, mode: string | undefined): string {
  const order = messages.map(({ role }) => role).join(', ')
  const hasDeveloper = messages.some(({ role }) => role === 'developer')
  if (mode === 'developer_as_system' && hasDeveloper)
    return `${order} – developer is sent as system (the upstream's setting now)`
  return `${order} – kept, in the caller's order`
}

function Calls({ calls }: { readonly calls: readonly ReceiptCall[] }) {
  return html`<ol class="calls">
    ${calls.map(
      ({ target, kind, status, ms, instruction }, index) => html`<li key=${index}>
      <span class="mono">${target}</span>
      <${Badge} state=${kind === 'answer' ? 'completed' : 'failed'} word=${kind} />
      <span class="muted">${status === null ? 'no HTTP status' : `HTTP ${status}`} · ${duration(ms)}</span>
      ${instruction && html`<details><summary>An instruction was added to the messages</summary><${CodeBlock} text=${instruction} what="the instruction" /></details>`}
    </li>`,
    )}
  </ol>`
}

interface RepairProps {
  readonly repair: NonNullable<ReceiptData['repair']>
  readonly job: JobDetails
}

function Repair({ repair, job }: RepairProps) {
  return html`<h3>Repair</h3>
    <p>The first answer broke the form that was asked for. The model was shown its errors and asked once more, ${
      job.status === 'completed' ? 'and that answer was right.' : 'and that did not help.'
    }</p>
    <ul class="faults">${repair.errors.map((error) => html`<li>${error}</li>`)}</ul>
    <h3>The first answer, raw</h3>
    <${CodeBlock} text=${repair.raw_text} what="the first answer" />`
}
