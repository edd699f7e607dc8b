/** A callback with all of its attempts, and the button that replays it. */
import { html } from 'htm/preact'
import { ConfirmedAction, useAction } from '../action.ts'
import { admin } from '../api.ts'
import type { CallbackAttempt, CallbackDetails, CallbackSummary } from '../contract.ts'
import { dateAndTime, duration, pretty } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { CodeBlock } from '../parts/copy-button.ts'
import { Facts } from '../parts/sections.ts'
import { type Columns, NOTHING, Table } from '../parts/table.ts'
import { Time } from '../parts/time.ts'

export function Attempts({ callback }: { readonly callback: CallbackDetails }) {
  const { url, header_names, callback_payload, event, next_attempt_at, ended_at, log } = callback
  const facts = [
    ['URL', html`<span class="mono breaks">${url}</span>`],
    ['Attempts', String(callback.attempts)],
    ['Next attempt', callback.under_way ? 'in progress' : html`<${Time} at=${next_attempt_at} />`],
    ['Finished', html`<${Time} at=${ended_at} />`],
    ['Headers', header_names.length === 0 ? 'none' : header_names.join(', ')],
  ]
  return html`<${Facts} facts=${facts} />
    ${
      event === null
        ? html`<${Payload} json=${callback_payload} />`
        : html`<p>It reports an event of the ${event}, without a payload.</p>`
    }
    ${log.length === 0 ? html`<p class="muted">No attempts yet.</p>` : html`<${Table} caption="Attempts, oldest first" columns=${COLUMNS} rows=${log} keyOf=${({ attempt }: CallbackAttempt) => attempt} />`}`
}

function Payload({ json }: { readonly json: string | null }) {
  if (json === null) return html`<p class="muted">A read-only admin token does not show the payload.</p>`
  return html`<details><summary>callback_payload</summary><${CodeBlock} text=${pretty(json)} what="the payload" /></details>`
}

const COLUMNS: Columns<CallbackAttempt> = [
  ['No.', ({ attempt }) => attempt, 'number'],
  ['When', ({ at }) => dateAndTime(at)],
  ['Result', resultOf],
  ['Duration', ({ ms }) => duration(ms), 'number'],
  ['Response', ({ answer }) => (answer ? html`<code class="excerpt">${answer}</code>` : NOTHING), 'wide'],
]

function resultOf({ status, error }: CallbackAttempt) {
  if (status === null) return html`<${Badge} state="failed" word="error" /> <span>${error}</span>`
  const isGood = status >= 200 && status < 300
  return html`<${Badge} state=${isGood ? 'delivered' : 'failed'} word=${`HTTP ${status}`} />`
}

interface ReplayButtonProps {
  readonly callback: CallbackSummary & { readonly under_way?: boolean }
  readonly onReplayed: () => void
}

/** Replays one callback, or all that have failed. */
export function ReplayButton({ callback, onReplayed }: ReplayButtonProps) {
  const replay = useAction(async () => {
    await admin(`/callbacks/${callback.job_id}/replay`, { body: {} })
    return 'The callback is due now and will be sent within seconds.'
  }, onReplayed)
  return html`<button type="button" class="button" disabled=${replay.busy || callback.under_way} onClick=${replay.run}
    aria-label=${`Replay the callback of job ${callback.job_id}`}>Replay</button>`
}

interface ReplayAllButtonProps {
  /** Empty for all accounts. */
  readonly account: string
  readonly onReplayed: () => void
}

export function ReplayAllButton({ account, onReplayed }: ReplayAllButtonProps) {
  const replay = async () => {
    const body = account === '' ? {} : { account }
    const { replayed } = await admin<{ replayed: number }>('/callbacks/replay-failed', { body })
    return replayed === 1 ? '1 callback is due now.' : `${replayed} callbacks are due now.`
  }
  return html`<${ConfirmedAction} label="Replay all failed…" title="Replay all failed callbacks?" action="Replay all" work=${replay} onEnd=${onReplayed}>
    <p>Every callback${account === '' ? '' : html` of the account <strong>${account}</strong>`} that failed permanently becomes due now,
    with the full number of attempts. Receivers may get some of them twice.</p>
  <//>`
}
