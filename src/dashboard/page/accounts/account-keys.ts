/** The keys of one account, with a button that creates another. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import type { Account } from '../contract.ts'
import { KeysPanel, useKeys } from './keys-panel.ts'
import { NewKeyDialog } from './new-key.ts'

export interface AccountKeysProps {
  readonly account: Account
  readonly onChange: () => void
}

export function AccountKeys({ account, onChange }: AccountKeysProps) {
  const keys = useKeys(account.name)
  const [creating, setCreating] = useState(false)
  const reload = () => {
    keys.reload()
    onChange()
  }
  const create = html`<button type="button" class="button" onClick=${() => setCreating(true)}>Create a key…</button>`
  return html`<${KeysPanel} keys=${keys} title=${`Keys of ${account.name}`} actions=${create} onChange=${reload} />
    ${
      creating &&
      html`<${NewKeyDialog} accounts=${[account]} account=${account.name} onCreated=${reload} onClose=${() => setCreating(false)} />`
    }`
}
