/** The page of all callbacks: failed, owed or delivered. And the page of one of them. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import type { CallbackDetails } from '../contract.ts'
import { CALLBACK_STATES, type CallbackList, type CallbackSummary } from '../contract.ts'
import { shortId } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { CopyButton } from '../parts/copy-button.ts'
import { TextField } from '../parts/field.ts'
import { Icon } from '../parts/icon.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf, SearchStopped } from '../parts/pages-of.ts'
import { Panel } from '../parts/panel.ts'
import { Time } from '../parts/time.ts'
import { Empty, StateOf, useReloadOnChange, useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import { Attempts, ReplayAllButton, ReplayButton } from './attempts.ts'

export function CallbacksPage() {
  const { query } = usePlace()
  const state = query.get('state') ?? 'failed'
  const account = query.get('account') ?? ''
  const before = query.get('before') ?? ''
  const [typed, setTyped] = useState(account)
  const asked = new URLSearchParams({
    state,
    limit: '50',
    ...(account && { account }),
    ...(before && { before }),
  })
  const callbacks = useResource<CallbackList>(`/callbacks?${asked}`)
  useReloadOnChange(callbacks.reload, before === '')
  const { data } = callbacks
  const onSubmit = (event: Event) => {
    event.preventDefault()
    navigate(address(['callbacks'], { state, account: typed.trim() }))
  }
  const older = () => {
    if (data?.next) navigate(address(['callbacks'], { state, account, before: data.next }))
  }
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
      <form role="search" aria-label="Callbacks of an account" class="inline-form" onSubmit=${onSubmit}>
        <${TextField} label="Account" value=${typed} onInput=${setTyped} placeholder="any" spellcheck=${false} autocomplete="off" />
        <button type="submit" class="button">Search</button>
      </form>
    </div>
    ${callbacks.error || !data ? html`<${StateOf} of=${callbacks} what="the callbacks" />` : null}
    ${data && data.callbacks.length > 0 && html`<${CallbackTable} callbacks=${data.callbacks} onReplayed=${callbacks.reload} />`}
    ${
      data?.callbacks.length === 0 &&
      html`<${Empty} title=${EMPTY[state] ?? 'No callbacks yet'}>
      <p>A job has a callback if its batch element contains <code>callback</code>.</p><//>`
    }
    ${data?.complete === false && html`<${SearchStopped} />`}
    ${
      data &&
      html`<${PagesOf} isFirst=${before === ''} more=${data.more} onOlder=${older}
      onNewest=${() => navigate(address(['callbacks'], { state, account }))} />`
    }`
}

const EMPTY: Readonly<Record<string, string>> = {
  failed: 'No callbacks have failed',
  owed: 'No callbacks are pending',
  delivered: 'No callbacks have been delivered yet',
}

interface CallbackTableProps {
  readonly callbacks: readonly CallbackSummary[]
  readonly onReplayed: () => void
}

function CallbackTable({ callbacks, onReplayed }: CallbackTableProps) {
  return html`<table class="list">
    <caption class="visually-hidden">Callbacks, newest job first</caption>
    <thead>
      <tr>
        <th scope="col">Job</th>
        <th scope="col" class="wide">Account</th>
        <th scope="col" class="wide">URL</th>
        <th scope="col">Last attempt</th>
        <th scope="col" class="number wide">Attempts</th>
        <th scope="col" class="number wide">${'Next or finished'}</th>
        <th scope="col"><span class="visually-hidden">Actions</span></th>
      </tr>
    </thead>
    <tbody>
      ${callbacks.map(
        (one) => html`<tr key=${one.job_id}>
        <th scope="row">
          <a class="mono" href=${address(['callbacks', one.job_id])} title=${one.job_id}>${shortId(one.job_id)}</a>
          <span class="narrow-only muted breaks">${one.account} · ${one.url}</span>
        </th>
        <td class="wide">${one.account}</td>
        <td class="wide"><span class="mono breaks">${one.url}</span></td>
        <td>${lastOf(one)}</td>
        <td class="number wide">${one.attempts}</td>
        <td class="number wide"><${Time} at=${one.next_attempt_at ?? one.ended_at} /></td>
        <td class="number"><${ReplayButton} callback=${one} onReplayed=${onReplayed} /></td>
      </tr>`,
      )}
    </tbody>
  </table>`
}

function lastOf({ state, last_attempt: last }: CallbackSummary) {
  if (!last) return html`<${Badge} state=${state} word=${state === 'owed' ? 'no attempts yet' : state} />`
  return html`<${Badge} state=${state} word=${last.status === null ? 'error' : `HTTP ${last.status}`} />
    ${last.error && html` <span class="muted breaks">${last.error}</span>`}`
}

/** The page of one callback. */
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
