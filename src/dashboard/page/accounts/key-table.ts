/** A table of keys, including revoked and expired ones, with a button that revokes a key. Keys themselves are not stored. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { Key } from '../contract.ts'
import { day } from '../format.ts'
import { serverNow } from '../live.ts'
import { announce } from '../parts/announce.ts'
import { Badge } from '../parts/badge.ts'
import { Confirm } from '../parts/dialog.ts'
import { Time } from '../parts/time.ts'
import { apiError } from '../resource.ts'

export interface KeyTableProps {
  readonly keys: readonly Key[]
  readonly onChange: () => void
}

export function KeyTable({ keys, onChange }: KeyTableProps) {
  const [revoking, setRevoking] = useState<Key | null>(null)
  const [busy, setBusy] = useState(false)
  const revoke = async (key: Key) => {
    setBusy(true)
    try {
      await admin(`/keys/${encodeURIComponent(key.id)}/revoke`, { body: {} })
      announce('The key was revoked. Every node rejects it within a few seconds.')
    } catch (error) {
      announce(apiError(error).words, true)
    }
    setBusy(false)
    setRevoking(null)
    onChange()
  }
  return html`<table class="list">
      <caption class="visually-hidden">Keys</caption>
      <thead>
        <tr>
          <th scope="col">Key ID</th>
          <th scope="col" class="wide">Account</th>
          <th scope="col" class="wide">Created</th>
          <th scope="col">State</th>
          <th scope="col"><span class="visually-hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        ${keys.map(
          (key) => html`<tr key=${key.id}>
          <th scope="row"><code class="breaks">${key.id}</code><span class="narrow-only muted">${key.account}</span></th>
          <td class="wide">${key.account}</td>
          <td class="wide"><${Time} at=${key.created_at} /></td>
          <td>${stateOf(key)}</td>
          <td class="actions">${isActive(key) && html`<button type="button" class="button" aria-label=${`Revoke ${key.id}`} onClick=${() => setRevoking(key)}>Revoke…</button>`}</td>
        </tr>`,
        )}
      </tbody>
    </table>
    ${
      revoking &&
      html`<${Confirm} title="Revoke this key?" action="Revoke" danger busy=${busy} onConfirm=${() => revoke(revoking)} onClose=${() => setRevoking(null)}>
        <p><code class="breaks">${revoking.id}</code> of the account <strong>${revoking.account}</strong> stops working permanently. The
        account's jobs continue, and its other keys can read them.</p>
      <//>`
    }`
}

function isActive({ revoked_at, expires_at }: Key): boolean {
  return revoked_at === null && (expires_at === null || expires_at > serverNow())
}

function stateOf(key: Key) {
  if (key.revoked_at !== null)
    return html`<${Badge} state="revoked" /> <span class="muted wide">${day(key.revoked_at)}</span>`
  if (!isActive(key))
    return html`<${Badge} state="expired" /> <span class="muted wide">${day(key.expires_at ?? 0)}</span>`
  return html`<${Badge} state="active" />${key.expires_at !== null && html` <span class="muted">until ${day(key.expires_at)}</span>`}`
}
