/**
 * Shows the conversation, the answer and the receipt of a job. The audit log records each read of them, so they are loaded only
 * on request.
 */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type {
  JobContent,
  JobDetails,
  JsonMode,
  Message,
  ReceiptCall,
  Receipt as ReceiptData,
} from '../contract.ts'
import { contentText, duration } from '../format.ts'
import { CodeBlock } from '../parts/copy-and-save.ts'
import { Badge } from '../parts/labels.ts'
import { Facts, Panel } from '../parts/sections.ts'
import { apiError } from '../resource.ts'

export function Content({ job }: { readonly job: JobDetails }) {
  const [content, setContent] = useState<JobContent | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [busy, setBusy] = useState(false)
  const show = async () => {
    setBusy(true)
    try {
      setContent(await admin<JobContent>(`/jobs/${job.job_id}/content`))
      setError(null)
    } catch (problem) {
      setError(apiError(problem))
    }
    setBusy(false)
  }
  const button = html`<button type="button" class="button primary" disabled=${busy} onClick=${show}>Show contents (this access is logged)</button>
    ${error && html`<p class="field-error" role="alert">${error.words}</p>`}`
  if (!content) {
    return html`<${Panel} title="Conversation, answer, receipt">
      <div class="locked">
        <p>The contents belong to the account <strong>${job.account}</strong>. They are shown only on request.</p>
        ${button}
      </div>
    <//>`
  }
  const isOld = job.settled_at !== null && content.result === null && content.error === null
  return html`<div class="stack">
    <${Panel} title="Conversation" actions=${html`<button type="button" class="quiet-button" onClick=${() => setContent(null)}>Hide contents</button>`}>
      <${Conversation} messages=${content.messages} />
      ${
        content.response_format.schema !== undefined &&
        html`<details><summary>Requested schema</summary>
        <${CodeBlock} text=${JSON.stringify(content.response_format.schema, null, 2)} what="the schema" /></details>`
      }
    <//>
    ${
      content.metadata &&
      html`<${Panel} title="Metadata"><${Facts} facts=${Object.entries(content.metadata)} /><//>`
    }
    ${
      isOld
        ? html`<${Panel} title="Answer, receipt"><div class="locked"><p>The job has finished since these contents were loaded.</p>${button}</div><//>`
        : html`<${Panel} title=${content.error ? 'Error' : 'Answer'}><${Answer} content=${content} /><//>
      <${Panel} title="Receipt"><${Receipt} content=${content} job=${job} /><//>`
    }
  </div>`
}

function Conversation({ messages }: { readonly messages: readonly Message[] }) {
  return html`<ol class="conversation">
    ${messages.map(
      ({ role, content }, index) => html`<li key=${index} class=${`said-by-${role}`}>
        <span class="role">${role}</span>
        <p class="said">${content === '' ? html`<span class="muted">(empty)</span>` : content}</p>
      </li>`,
    )}
  </ol>`
}

function Answer({ content: { result, error } }: { readonly content: JobContent }) {
  if (error) {
    return html`<p><span class="code-word">${error.code}</span> ${error.message}</p>
      ${error.upstream_message && html`<p class="muted">The model server responded${error.upstream_status ? ` (${error.upstream_status})` : ''}: ${error.upstream_message}</p>`}
      ${error.errors && html`<ul class="faults">${error.errors.map((fault) => html`<li>${fault}</li>`)}</ul>`}
      ${error.raw_text !== undefined && html`<h3>The last answer of the model, unmodified</h3><${CodeBlock} text=${error.raw_text} what="the raw answer" />`}`
  }
  if (!result) return html`<p class="muted">No answer yet.</p>`
  return html`<${CodeBlock} text=${contentText(result.response_content)} what="the answer" />`
}

interface ReceiptProps {
  readonly content: JobContent
  readonly job: JobDetails
}

function Receipt({ content, job }: ReceiptProps) {
  const { receipt } = content
  if (!receipt) return html`<p class="muted">The receipt is available when the job has finished.</p>`
  if (job.cache_hit) {
    return html`<p>The cached response of an identical earlier job was used (<code>message_cache_ttl</code>). Nothing was sent to a model server.</p>`
  }
  const lost =
    receipt.calls_lost && html`<p>A node crashed while it ran this job, so calls may be missing here.</p>`
  if (receipt.calls.length === 0) return lost || html`<p>No model was called.</p>`
  return html`<${Facts} facts=${factsOf(receipt, content, job)} />
    <h3>Calls, in order</h3>
    <${Calls} calls=${receipt.calls} />
    ${lost}
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
    ...(content.options ? [['Options', optionsText(content.options)]] : []),
    ...(receipt.ignored ? [['Not checked', `${receipt.ignored.join(', ')} (in the schema)`]] : []),
    ...(form === 'text'
      ? []
      : [['Enforced by', describeCalls(calls, ({ json_mode }) => json_mode && JSON_MODES[json_mode])]]),
  ]
}

function optionsText(options: NonNullable<JobContent['options']>): string {
  return Object.entries(options)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join(', ')
}

/** Returns one description if all calls have the same, and otherwise a description for each target. */
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
        { target, kind, status, ms, instruction, other_format, finish_reason, broke },
        index,
      ) => html`<li key=${index}>
      <span class="mono">${target}</span>
      <${Badge} state=${kind === 'answer' ? 'completed' : 'failed'} word=${kind} />
      <span class="muted">${status === null ? 'no HTTP status' : `HTTP ${status}`} · ${duration(ms)}</span>
      ${finish_reason && html`<${Badge} state="skipped" word="cut off" /> <span class="muted">The model reached its length limit (finish_reason: ${finish_reason}), so the answer is incomplete.</span>`}
      ${broke && html`<span class="muted"> · The connection broke while ${broke.in_progress} ${broke.in_progress === 1 ? 'call was' : 'calls were'} in progress${broke.counts ? ', which counts against this job' : ''}${broke.schema ? ` (schema ${broke.schema})` : ''}.</span>`}
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
