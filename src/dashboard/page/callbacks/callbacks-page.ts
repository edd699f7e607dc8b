/** The page of all callbacks: failed, owed or delivered. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { CALLBACK_STATES, type CallbackList, type CallbackSummary } from '../contract.ts'
import { shortId } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { TextField } from '../parts/field.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf, SearchStopped } from '../parts/pages-of.ts'
import { Empty, StateOf } from '../parts/state-of.ts'
import { Time } from '../parts/time.ts'
import { useReloadOnChange, useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import { ReplayAllButton, ReplayButton } from './replay.ts'

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
