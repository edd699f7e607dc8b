/** The accounts, with what can be done to each: its tier, its callback signing secret. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import { type Account, TIERS } from '../contract.ts'
import { announce } from '../parts/announce.ts'
import { Select } from '../parts/field.ts'
import { Time } from '../parts/time.ts'
import { apiError } from '../resource.ts'
import { address } from '../router.ts'
import { SecretDialog } from './secret.ts'

export interface AccountTableProps {
  readonly accounts: readonly Account[]
  readonly onChange: () => void
}

export function AccountTable({ accounts, onChange }: AccountTableProps) {
  const [secretOf, setSecretOf] = useState<string | null>(null)
  const setTier = async (name: string, tier: string) => {
    try {
      await admin(`/accounts/${encodeURIComponent(name)}/tier`, { body: { tier } })
      announce(`The account ${name} has the tier ${tier} now.`)
    } catch (error) {
      announce(apiError(error).words, true)
    }
    onChange()
  }
  return html`<table class="list">
      <caption class="visually-hidden">Accounts</caption>
      <thead>
        <tr>
          <th scope="col">Account</th>
          <th scope="col">Tier</th>
          <th scope="col" class="number wide">Keys</th>
          <th scope="col" class="wide">Secret rotated</th>
          <th scope="col"><span class="visually-hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        ${accounts.map(
          ({ name, tier, keys, active_keys, secret_rotated_at }) => html`<tr key=${name}>
          <th scope="row"><a class="breaks" href=${address(['accounts'], { account: name })}>${name}</a></th>
          <td><${Select} label=${`Tier of ${name}`} hideLabel value=${tier} options=${TIERS.map((one) => [one, one])}
            onChange=${(to: string) => void setTier(name, to)} /></td>
          <td class="number wide">${active_keys} <span class="muted">of ${keys}</span></td>
          <td class="wide">${secret_rotated_at === null ? html`<span class="muted">never</span>` : html`<${Time} at=${secret_rotated_at} />`}</td>
          <td class="actions">
            <a class="button wide" href=${address(['jobs'], { account: name })} aria-label=${`Jobs of ${name}`}>Jobs</a>
            <button type="button" class="button" aria-label=${`Signing secret of ${name}`} onClick=${() => setSecretOf(name)}>Secret…</button>
          </td>
        </tr>`,
        )}
      </tbody>
    </table>
    ${secretOf !== null && html`<${SecretDialog} account=${secretOf} onChange=${onChange} onClose=${() => setSecretOf(null)} />`}`
}
