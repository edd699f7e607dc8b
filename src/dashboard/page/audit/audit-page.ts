/** The page of the audit log, newest entries first. */
import { html } from 'htm/preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import type { AuditEntry, AuditList } from '../contract.ts'
import { dateAndTime, shortId } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { TextField } from '../parts/field.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf } from '../parts/pages-of.ts'
import { Time } from '../parts/time.ts'
import { Empty, StateOf, useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'

const PAGE_SIZE = '50'

export function AuditPage() {
  const { query } = usePlace()
  const account = query.get('account') ?? ''
  const before = query.get('before') ?? ''
  const [typed, setTyped] = useState(account)
  // The back button restores earlier filters. A layout effect sets the field before the next key press, so that no input is lost.
  useLayoutEffect(() => setTyped(account), [account])
  const asked = new URLSearchParams({
    limit: PAGE_SIZE,
    ...(account && { account }),
    ...(before && { before }),
  })
  const page = useResource<AuditList>(`/audit?${asked}`)
  const { data, error, loading, reload } = page
  const onSubmit = (event: Event) => {
    event.preventDefault()
    navigate(address(['audit'], { account: typed.trim() }))
  }
  const older = () => {
    if (data?.next) navigate(address(['audit'], { account, before: data.next }))
  }
  return html`<${PageTitle} title="Audit log">
      <button type="button" class="button" disabled=${loading} onClick=${reload}>Reload</button>
    <//>
    <form role="search" aria-label="Audit log entries of an account" class="filters" onSubmit=${onSubmit}>
      <${TextField} label="Account" value=${typed} onInput=${setTyped} placeholder="any" spellcheck=${false} autocomplete="off" />
      <button type="submit" class="button">Search</button>
    </form>
    ${error || !data ? html`<${StateOf} of=${page} what="the audit log" />` : null}
    ${data && data.acts.length > 0 && html`<${AuditTable} entries=${data.acts} />`}
    ${
      data?.acts.length === 0 &&
      html`<${Empty} title=${account === '' ? 'The audit log is empty' : 'No entries for this account'}>
        ${
          account === ''
            ? html`<p>Admin actions in the dashboard, the admin API and the command line are recorded here.</p>`
            : html`<p><a href=${address(['audit'])}>All entries</a></p>`
        }
      <//>`
    }
    ${
      data &&
      html`<${PagesOf} isFirst=${before === ''} more=${data.more} onOlder=${older}
      onNewest=${() => navigate(address(['audit'], { account }))} />`
    }`
}

/** Job IDs are UUIDs; key IDs are not. */
const TARGET = /^(batch_)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

function AuditTable({ entries }: { readonly entries: readonly AuditEntry[] }) {
  return html`<table class="list audit-table">
    <caption class="visually-hidden">Audit log entries, newest first</caption>
    <thead>
      <tr>
        <th scope="col">When</th>
        <th scope="col">What</th>
        <th scope="col" class="wide">Who</th>
        <th scope="col" class="wide">Account</th>
        <th scope="col" class="wide">Job or key</th>
        <th scope="col" class="wide">Details</th>
        <th scope="col">Outcome</th>
      </tr>
    </thead>
    <tbody>${entries.map((entry) => html`<${Row} key=${entry.id} entry=${entry} />`)}</tbody>
  </table>`
}

function Row({ entry }: { readonly entry: AuditEntry }) {
  const account = accountOf(entry)
  const target = targetOf(entry)
  const details = detailsOf(entry)
  return html`<tr>
    <td class="audit-when"><${Time} at=${entry.at} /><span class="muted wide">${dateAndTime(entry.at)}</span></td>
    <th scope="row">
      ${entry.what}
      <span class="narrow-only muted breaks">${entry.who}</span>
      ${account && html`<span class="narrow-only breaks">${account}</span>`}
      ${target && html`<span class="narrow-only breaks">${target}</span>`}
      ${details && html`<span class="narrow-only breaks">${details}</span>`}
    </th>
    <td class="wide breaks">${entry.who}</td>
    <td class="wide">${account ?? NOTHING}</td>
    <td class="wide">${target ?? NOTHING}</td>
    <td class="wide">${details ?? NOTHING}</td>
    <td><${Outcome} outcome=${entry.outcome} /></td>
  </tr>`
}

const NOTHING = html`<span class="muted">–</span>`

function accountOf({ account }: AuditEntry) {
  return account === null
    ? null
    : html`<a class="breaks" href=${address(['accounts', account])}>${account}</a>`
}

function targetOf({ what, target }: AuditEntry) {
  if (target === null) return null
  const [, prefix = '', id = ''] = TARGET.exec(target) ?? []
  if (id === '') return html`<code class="breaks">${target}</code>`
  // A callback has the ID of its job, or of its batch without the prefix.
  const page = prefix !== '' ? 'batches' : what.includes('callback') ? 'callbacks' : 'jobs'
  return html`<a class="mono" href=${address([page, target])} title=${target}>${prefix}${shortId(id)}</a>`
}

function detailsOf({ details }: AuditEntry) {
  const entries = Object.entries(details)
  if (entries.length === 0) return null
  const words = entries.map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return html`<code class="breaks">${words.join(', ')}</code>`
}

/** An entry without an outcome is either in progress, or its process was killed. The log does not show which. */
function Outcome({ outcome }: Pick<AuditEntry, 'outcome'>) {
  if (outcome === null) return html`<${Badge} state="in progress" word="in progress, or interrupted" />`
  const [, how, why = ''] = /^(failed|refused): (.*)$/s.exec(outcome) ?? []
  if (how === undefined) return html`<span class="breaks">${outcome}</span>`
  return html`<${Badge} state=${how} />${' '}<span class="breaks">${why}</span>`
}
