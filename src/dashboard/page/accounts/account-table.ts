/** The list of accounts, with the most frequent actions: set the tier, show the signing secret. The page of an account has the others. */
import { html } from 'htm/preact'
import type { Account } from '../contract.ts'
import { Badge } from '../parts/badge.ts'
import { Time } from '../parts/time.ts'
import { address } from '../router.ts'
import { SecretButton } from './secret.ts'
import { TierSelect } from './tier.ts'

export interface AccountTableProps {
  readonly accounts: readonly Account[]
  readonly onChange: () => void
}

export function AccountTable({ accounts, onChange }: AccountTableProps) {
  return html`<table class="list">
      <caption class="visually-hidden">Accounts</caption>
      <thead>
        <tr>
          <th scope="col">Account</th>
          <th scope="col" class="wide">State</th>
          <th scope="col">Tier</th>
          <th scope="col" class="number wide">Keys</th>
          <th scope="col" class="wide">Secret rotated</th>
          <th scope="col"><span class="visually-hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        ${accounts.map(
          ({ name, tier, keys, active_keys, secret_rotated_at, suspended_at }) => html`<tr key=${name}>
          <th scope="row">
            <a class="breaks" href=${address(['accounts', name])}>${name}</a>
            ${suspended_at !== null && html`<span class="narrow-only"><${Badge} state="suspended" /></span>`}
          </th>
          <td class="wide">${
            suspended_at === null
              ? html`<${Badge} state="active" />`
              : html`<${Badge} state="suspended" /> <span class="muted"><${Time} at=${suspended_at} /></span>`
          }</td>
          <td><${TierSelect} name=${name} tier=${tier} onChange=${onChange} /></td>
          <td class="number wide">${active_keys} <span class="muted">of ${keys}</span></td>
          <td class="wide">${secret_rotated_at === null ? html`<span class="muted">never</span>` : html`<${Time} at=${secret_rotated_at} />`}</td>
          <td class="actions">
            <a class="button wide" href=${address(['jobs'], { account: name })} aria-label=${`Jobs of ${name}`}>Jobs</a>
            <${SecretButton} account=${name} onChange=${onChange} />
          </td>
        </tr>`,
        )}
      </tbody>
    </table>`
}
