/** Renders the page of all callbacks, which can be filtered by state, and the page of one callback. */
import { html } from 'htm/preact'
import { admin } from '../api.ts'
import {
  CALLBACK_STATES,
  type CallbackAttempt,
  type CallbackDetails,
  type CallbackList,
  type CallbackSummary,
} from '../contract.ts'
import { dateAndTime, duration, pretty, shortId } from '../format.ts'
import { CodeBlock, CopyButton } from '../parts/copy-and-save.ts'
import { ConfirmedAction, useAction } from '../parts/dialog.ts'
import { Badge, Icon, Time } from '../parts/labels.ts'
import { ACTIONS, AccountSearch, type Columns, NOTHING, Table, useList } from '../parts/list.ts'
import { Facts, PageTitle, Panel } from '../parts/sections.ts'
import { Empty, StateOf, useReloadOnChange, useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'

export function CallbacksPage() {
  const { query } = usePlace()
  const state = query.get('state') ?? 'failed'
  const account = query.get('account') ?? ''
  const callbacks = useList<CallbackList>('callbacks', { state, account })
  useReloadOnChange(callbacks.reload, callbacks.isFirst)
  const { data } = callbacks
  return html`<${PageTitle} title="Callbacks">
      ${state === 'failed' && data && data.callbacks.length > 0 && html`<${ReplayAllButton} account=${account} onReplayed=${callbacks.reload} />`}
    <//>
    <div class="filters">
      <nav class="segments" aria-label="State of the callbacks">
        ${CALLBACK_STATES.map(
          (one) => html`<a key=${one} href=${address(['callbacks'], { state: one, account })}
          aria-current=${one === state ? 'page' : undefined}>${one}</a>`,
        )}
      </nav>
      <${AccountSearch} label="Callbacks of an account" class="inline-form" account=${account}
        onSearch=${(name: string) => navigate(address(['callbacks'], { state, account: name }))} />
    </div>
    <${StateOf} of=${callbacks} what="the callbacks" />
    ${
      data &&
      data.callbacks.length > 0 &&
      html`<${Table} class="list" caption="Callbacks, newest job first" columns=${columnsWith(callbacks.reload)} rows=${data.callbacks} keyOf=${idOf} />`
    }
    ${
      data?.callbacks.length === 0 &&
      html`<${Empty} title=${account === '' ? (EMPTY[state] ?? 'No callbacks yet') : 'No such callbacks of this account'}>
      <p>A job has a callback if its batch element contains <code>callback</code>.</p><//>`
    }
    ${callbacks.pages}`
}

const EMPTY: Readonly<Record<string, string>> = {
  failed: 'No callbacks have failed',
  owed: 'No callbacks are pending',
  delivered: 'No callbacks have been delivered yet',
}

const idOf = ({ job_id }: CallbackSummary) => job_id

const columnsWith = (onReplayed: () => void): Columns<CallbackSummary> => [
  ['Job', nameOf],
  ['Account', ({ account }) => account, 'wide'],
  ['URL', ({ url }) => html`<span class="mono breaks">${url}</span>`, 'wide'],
  ['Last attempt', lastOf],
  ['Attempts', ({ attempts }) => attempts, 'number wide'],
  [
    'Next or finished',
    ({ next_attempt_at, ended_at }) => html`<${Time} at=${next_attempt_at ?? ended_at} />`,
    'number wide',
  ],
  [ACTIONS, (one) => html`<${ReplayButton} callback=${one} onReplayed=${onReplayed} />`, 'number'],
]

function nameOf({ job_id, account, url }: CallbackSummary) {
  return html`<a class="mono" href=${address(['callbacks', job_id])} title=${job_id}>${shortId(job_id)}</a>
    <span class="narrow-only muted breaks">${account} · ${url}</span>`
}

function lastOf({ state, last_attempt: last }: CallbackSummary) {
  if (!last) return html`<${Badge} state=${state} word=${state === 'owed' ? 'no attempts yet' : state} />`
  return html`<${Badge} state=${state} word=${last.status === null ? 'error' : `HTTP ${last.status}`} />
    ${last.error && html` <span class="muted breaks">${last.error}</span>`}`
}

export function CallbackPage({ id }: { readonly id: string }) {
  const callback = useResource<CallbackDetails>(`/callbacks/${encodeURIComponent(id)}`)
  const { data } = callback
  useReloadOnChange(callback.reload, data?.state === 'owed', 1500)
  return html`<p class="back-link"><a href=${address(['callbacks'])}><${Icon} name="back" />Callbacks</a></p>
    <${PageTitle} title="Callback" tab=${`Callback ${id.slice(0, 8)}`}>
      ${data && html`<${Badge} state=${data.under_way ? 'in progress' : data.state} />`}
    <//>
    <p class="id-line">${
      data?.event === 'batch'
        ? html`<span>of batch</span> <a class="mono breaks" href=${address(['batches', `batch_${id}`])}>batch_${id}</a>`
        : html`<span>of job</span> <a class="mono breaks" href=${address(['jobs', id])}>${id}</a>`
    }<${CopyButton} text=${id} what="the ID" small /></p>
    ${
      callback.error?.status === 404
        ? html`<${Empty} title="Callback not found"><p>The job has no callback, or it has expired.</p><//>`
        : html`<${StateOf} of=${callback} what="the callback" />`
    }
    ${
      data &&
      html`<${Panel} title="Delivery" wide actions=${html`<${ReplayButton} callback=${data} onReplayed=${callback.reload} />`}>
        <${Attempts} callback=${data} />
      <//>`
    }`
}

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

export function ReplayButton({ callback, onReplayed }: ReplayButtonProps) {
  const replay = useAction(async () => {
    await admin(`/callbacks/${callback.job_id}/replay`, { body: {} })
    return 'The callback is due now and will be sent within seconds.'
  }, onReplayed)
  return html`<button type="button" class="button" disabled=${replay.busy || callback.under_way} onClick=${replay.run}
    aria-label=${`Replay the callback of job ${callback.job_id}`}>Replay</button>`
}

interface ReplayAllButtonProps {
  /** Only failed callbacks of this account are replayed. An empty text means all accounts. */
  readonly account: string
  readonly onReplayed: () => void
}

function ReplayAllButton({ account, onReplayed }: ReplayAllButtonProps) {
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
