/** Acts as rows: when, who, what, to whom, and what came of it. */
import { html } from 'htm/preact'
import type { Act } from '../contract-operations.ts'
import { dateAndTime, shortId } from '../format.ts'
import { Badge } from '../parts/badge.ts'
import { Time } from '../parts/time.ts'
import { address } from '../router.ts'

/** Jobs' ids are UUIDs; keys' are not. */
const JOB_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export function ActTable({ acts }: { readonly acts: readonly Act[] }) {
  return html`<table class="list act-table">
    <caption class="visually-hidden">Acts, newest first</caption>
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
    <tbody>${acts.map((act) => html`<${Row} key=${act.id} act=${act} />`)}</tbody>
  </table>`
}

function Row({ act }: { readonly act: Act }) {
  const account = accountOf(act)
  const target = targetOf(act)
  const details = detailsOf(act)
  return html`<tr>
    <td class="act-when"><${Time} at=${act.at} /><span class="muted wide">${dateAndTime(act.at)}</span></td>
    <th scope="row">
      ${act.what}
      <span class="narrow-only muted breaks">${act.who}</span>
      ${account && html`<span class="narrow-only breaks">${account}</span>`}
      ${target && html`<span class="narrow-only breaks">${target}</span>`}
      ${details && html`<span class="narrow-only breaks">${details}</span>`}
    </th>
    <td class="wide breaks">${act.who}</td>
    <td class="wide">${account ?? NOTHING}</td>
    <td class="wide">${target ?? NOTHING}</td>
    <td class="wide">${details ?? NOTHING}</td>
    <td><${Outcome} outcome=${act.outcome} /></td>
  </tr>`
}

const NOTHING = html`<span class="muted">–</span>`

function accountOf({ account }: Act) {
  return account === null
    ? null
    : html`<a class="breaks" href=${address(['accounts', account])}>${account}</a>`
}

function targetOf({ target }: Act) {
  if (target === null) return null
  if (!JOB_ID.test(target)) return html`<code class="breaks">${target}</code>`
  return html`<a class="mono" href=${address(['jobs', target])} title=${target}>${shortId(target)}</a>`
}

function detailsOf({ details }: Act) {
  const entries = Object.entries(details)
  if (entries.length === 0) return null
  const words = entries.map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return html`<code class="breaks">${words.join(', ')}</code>`
}

/** One without an outcome is still going on, or its server died over it: nobody can tell from here. */
function Outcome({ outcome }: Pick<Act, 'outcome'>) {
  if (outcome === null) return html`<${Badge} state="under way" word="under way, or cut off" />`
  const [, how, why = ''] = /^(failed|refused): (.*)$/s.exec(outcome) ?? []
  if (how === undefined) return html`<span class="breaks">${outcome}</span>`
  return html`<${Badge} state=${how} />${' '}<span class="breaks">${why}</span>`
}
