/** The page of all batches, or of those that have not ended, with their progress. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import type { BatchList, BatchSummary } from '../contract.ts'
import { exact, shortId } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { TextField } from '../parts/field.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf } from '../parts/pages-of.ts'
import { Time } from '../parts/time.ts'
import { Empty, StateOf, useReloadWhile, useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'

export function BatchesPage() {
  const { query } = usePlace()
  const open = query.get('open') === 'true'
  const account = query.get('account') ?? ''
  const before = query.get('before') ?? ''
  const [typed, setTyped] = useState(account)
  const filters = { ...(open && { open: 'true' }), ...(account && { account }) }
  const asked = new URLSearchParams({ ...filters, limit: '50', ...(before && { before }) })
  const batches = useResource<BatchList>(`/batches?${asked}`)
  const { data } = batches
  useReloadWhile(batches.reload, before === '')
  const onSubmit = (event: Event) => {
    event.preventDefault()
    navigate(address(['batches'], { ...(open && { open: 'true' }), account: typed.trim() }))
  }
  const older = () => {
    if (data?.next) navigate(address(['batches'], { ...filters, before: data.next }))
  }
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
      <form role="search" aria-label="Batches of an account" class="inline-form" onSubmit=${onSubmit}>
        <${TextField} label="Account" value=${typed} onInput=${setTyped} placeholder="any" spellcheck=${false} autocomplete="off" />
        <button type="submit" class="button">Search</button>
      </form>
    </div>
    ${batches.error || !data ? html`<${StateOf} of=${batches} what="the batches" />` : null}
    ${data && data.batches.length > 0 && html`<${BatchTable} batches=${data.batches} />`}
    ${
      data?.batches.length === 0 &&
      html`<${Empty} title=${open ? 'No batches are open' : 'No batches yet'}>
      <p>A batch runs every line of a file: <code>POST /v1/batches</code>, or <code>parley batches create</code>.</p><//>`
    }
    ${
      data &&
      html`<${PagesOf} isFirst=${before === ''} more=${data.more} onOlder=${older}
      onNewest=${() => navigate(address(['batches'], filters))} />`
    }`
}

function BatchTable({ batches }: { readonly batches: readonly BatchSummary[] }) {
  return html`<table class="list">
    <caption class="visually-hidden">Batches, newest first</caption>
    <thead>
      <tr>
        <th scope="col">Batch</th>
        <th scope="col">Status</th>
        <th scope="col" class="wide">Account</th>
        <th scope="col" class="wide">Progress</th>
        <th scope="col" class="number wide">Lines</th>
        <th scope="col" class="number wide">Failed</th>
        <th scope="col" class="number">Created</th>
      </tr>
    </thead>
    <tbody>
      ${batches.map(
        (one) => html`<tr key=${one.batch_id}>
        <th scope="row">
          <a class="mono" href=${address(['batches', one.batch_id])} title=${one.batch_id}>${shortId(one.batch_id.replace(/^batch_/, ''))}</a>
          <span class="narrow-only muted breaks">${one.account} · ${doneOf(one)} of ${exact(one.lines.total)}</span>
        </th>
        <td><${Badge} state=${one.status} word=${one.waiting ? 'waiting' : one.status.replace('_', ' ')} /></td>
        <td class="wide">${one.account}</td>
        <td class="wide"><${Progress} batch=${one} /></td>
        <td class="number wide">${exact(one.lines.total)}</td>
        <td class="number wide">${exact(one.lines.failed)}</td>
        <td class="number"><${Time} at=${one.created_at} /></td>
      </tr>`,
      )}
    </tbody>
  </table>`
}

function doneOf({ lines: { completed, failed } }: BatchSummary): string {
  return exact(completed + failed)
}

/** Shows as a bar how many lines of a batch have ended. */
export function Progress({ batch: { lines, batch_id } }: { readonly batch: BatchSummary }) {
  const ended = lines.completed + lines.failed
  const part = lines.total === 0 ? 0 : Math.floor((100 * ended) / lines.total)
  return html`<span class="progress"><progress max="100" value=${part} aria-label=${`Lines of ${batch_id} that have ended`}></progress> ${part}%</span>`
}
