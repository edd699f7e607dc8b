/** The entries of the audit log as a table. */
import { html } from 'htm/preact'
import type { AuditEntry } from '../contract.ts'
import { dateAndTime, shortId } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { Time } from '../parts/time.ts'
import { address } from '../router.ts'

/** Job IDs are UUIDs; key IDs are not. */
const JOB_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export function AuditTable({ entries }: { readonly entries: readonly AuditEntry[] }) {
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

function targetOf({ target }: AuditEntry) {
  if (target === null) return null
  if (!JOB_ID.test(target)) return html`<code class="breaks">${target}</code>`
  return html`<a class="mono" href=${address(['jobs', target])} title=${target}>${shortId(target)}</a>`
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
