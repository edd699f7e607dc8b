/** What was really sent to models for a job, and what came back, in words. */
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
  if (!receipt) return html`<p class="muted">There is none until the job has ended.</p>`
  if (job.cache_hit) {
    return html`<p>The answer of an identical earlier job was used (<code>message_cache_ttl</code>); nothing was sent upstream.</p>`
  }
  if (receipt.calls.length === 0) return html`<p>No model was called.</p>`
  return html`<${Facts} facts=${factsOf(receipt, content, job)} />
    <h3>Calls, in the order made</h3>
    <${Calls} calls=${receipt.calls} />
    ${receipt.repair && html`<${Repair} repair=${receipt.repair} job=${job} />`}`
}

const FORMS = {
  text: 'text: no form was asked of the model',
  json: 'any JSON value',
  schema: 'JSON with the schema',
} as const

const JSON_MODES: Readonly<Record<JsonMode, string>> = {
  json_schema_strict: 'json_schema, strict: the server was given the schema to hold the model to',
  json_schema: 'json_schema, not strict: the server was given the schema as a guide',
  json_object: 'json_object: any object, with the schema in an instruction',
  instruction: 'an instruction alone',
  simulated: 'nothing: the simulator makes JSON by itself',
}

const NOT_RECORDED = 'not recorded: the job ran on an earlier version'

function factsOf(receipt: ReceiptData, content: JobContent, job: JobDetails) {
  const { form, strict, calls } = receipt
  const strictness = strict
    ? ', which meets the strict rules'
    : ', which does not meet the strict rules: not every property is required, or others are allowed'
  return [
    ['Target chosen', job.target ?? 'none gave an answer'],
    ['Roles', wordsOf(calls, ({ roles }) => roles && rolesOf(content, roles))],
    ['Answer form', form === 'schema' ? FORMS.schema + strictness : FORMS[form]],
    ...(form === 'text'
      ? []
      : [['Held to it by', wordsOf(calls, ({ json_mode }) => json_mode && JSON_MODES[json_mode])]]),
  ]
}

/** What is said of the calls, once where it is the same of all. */
function wordsOf(calls: readonly ReceiptCall[], say: (call: ReceiptCall) => string | undefined): string {
  const said = new Map<string, Set<string>>()
  for (const call of calls) {
    const words = say(call) ?? NOT_RECORDED
    said.set(words, (said.get(words) ?? new Set()).add(call.target))
  }
  if (said.size === 1) return [...said.keys()].join()
  return [...said].map(([words, targets]) => `${[...targets].join(', ')}: ${words}`).join('; ')
}

function rolesOf({ messages }: JobContent, mode: NonNullable<ReceiptCall['roles']>): string {
  const order = messages.map(({ role }) => role).join(', ')
  const isMapped = mode === 'developer_as_system' && messages.some(({ role }) => role === 'developer')
  return `${order} – ${isMapped ? 'developer was sent as system' : 'kept'}, in the caller's order`
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
