/** The receipt of a job: what was sent to models, and what came back. */
import { html } from 'htm/preact'
import type { JobContent, JobDetails, JsonMode, ReceiptCall, Receipt as ReceiptData } from '../contract.ts'
import { duration } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { CodeBlock } from '../parts/code-block.ts'
import { Facts } from '../parts/facts.ts'

export interface ReceiptProps {
  readonly content: JobContent
  readonly job: JobDetails
}

export function Receipt({ content, job }: ReceiptProps) {
  const { receipt } = content
  if (!receipt) return html`<p class="muted">The receipt is available when the job has finished.</p>`
  if (job.cache_hit) {
    return html`<p>The cached response of an identical earlier job was used (<code>message_cache_ttl</code>). Nothing was sent to a model server.</p>`
  }
  if (receipt.calls.length === 0) return html`<p>No model was called.</p>`
  return html`<${Facts} facts=${factsOf(receipt, content, job)} />
    <h3>Calls, in order</h3>
    <${Calls} calls=${receipt.calls} />
    ${receipt.repair && html`<${Repair} repair=${receipt.repair} job=${job} />`}`
}

const FORMS = {
  text: 'text: the model may answer in any format',
  json: 'any JSON value',
  schema: 'JSON that satisfies the schema',
} as const

const JSON_MODES: Readonly<Record<JsonMode, string>> = {
  json_schema_strict: 'json_schema, strict: the server enforces the schema',
  json_schema: 'json_schema, not strict: the schema guides the model',
  json_object: 'json_object: any object, with the schema in an instruction',
  instruction: 'an instruction only',
  simulated: 'nothing: the simulator generates JSON itself',
}

const NOT_RECORDED = 'not recorded: the job ran on an earlier version'

function factsOf(receipt: ReceiptData, content: JobContent, job: JobDetails) {
  const { form, strict, calls } = receipt
  const strictness = strict
    ? ', which meets the strict rules'
    : ', which does not meet the strict rules: for example, a property is optional, other properties are allowed, or a keyword is not supported'
  return [
    ['Target', job.target ?? 'no target answered'],
    ['Roles', describeCalls(calls, ({ roles }) => roles && rolesOf(content, roles))],
    ['Answer format', form === 'schema' ? FORMS.schema + strictness : FORMS[form]],
    ...(receipt.ignored ? [['Not checked', `${receipt.ignored.join(', ')} (in the schema)`]] : []),
    ...(form === 'text'
      ? []
      : [['Enforced by', describeCalls(calls, ({ json_mode }) => json_mode && JSON_MODES[json_mode])]]),
  ]
}

/** Describes the calls: once if the description is the same for all, otherwise per target. */
function describeCalls(
  calls: readonly ReceiptCall[],
  describe: (call: ReceiptCall) => string | undefined,
): string {
  const targetsBy = new Map<string, Set<string>>()
  for (const call of calls) {
    const text = describe(call) ?? NOT_RECORDED
    targetsBy.set(text, (targetsBy.get(text) ?? new Set()).add(call.target))
  }
  if (targetsBy.size === 1) return [...targetsBy.keys()].join()
  return [...targetsBy].map(([text, targets]) => `${[...targets].join(', ')}: ${text}`).join('; ')
}

function rolesOf({ messages }: JobContent, mode: NonNullable<ReceiptCall['roles']>): string {
  const order = messages.map(({ role }) => role).join(', ')
  const isMapped = mode === 'developer_as_system' && messages.some(({ role }) => role === 'developer')
  return `${order} – ${ROLES_SENT[mode === 'developer_as_system' && !isMapped ? 'native' : mode]}, in the caller's order`
}

const ROLES_SENT = {
  native: 'unchanged',
  developer_as_system: 'developer was sent as system',
  merged_system:
    'leading system and developer messages were merged into one system message, and later ones were sent as system',
  no_system:
    'system and developer messages were merged into the next user message, and adjacent messages of the same role into one',
} as const

const OTHER_FORMATS = {
  roles: 'the same conversation with other roles, because the server rejected the previous call',
  json_mode:
    'the same conversation, with JSON requested differently, because the server rejected the previous call',
  both: 'the same conversation, with other roles and JSON requested differently, because the server rejected the previous calls',
} as const

function Calls({ calls }: { readonly calls: readonly ReceiptCall[] }) {
  return html`<ol class="calls">
    ${calls.map(
      (
        { target, kind, status, ms, instruction, other_format, finish_reason },
        index,
      ) => html`<li key=${index}>
      <span class="mono">${target}</span>
      <${Badge} state=${kind === 'answer' ? 'completed' : 'failed'} word=${kind} />
      <span class="muted">${status === null ? 'no HTTP status' : `HTTP ${status}`} · ${duration(ms)}</span>
      ${finish_reason && html`<${Badge} state="skipped" word="cut off" /> <span class="muted">The model reached its length limit (finish_reason: ${finish_reason}), so the answer is incomplete.</span>`}
      ${other_format && html`<span class="muted"> · ${OTHER_FORMATS[other_format]}</span>`}
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
    <p>The first answer did not match the requested format. The model was given the errors and answered again, ${
      job.status === 'completed' ? 'this time correctly.' : 'again with errors.'
    }</p>
    <ul class="faults">${repair.errors.map((error) => html`<li>${error}</li>`)}</ul>
    <h3>The first answer, unmodified</h3>
    <${CodeBlock} text=${repair.raw_text} what="the first answer" />`
}
