/** Creates a key. The key is shown only once, so the dialog stays open until the operator confirms. */
import { html } from 'htm/preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { Account, NewKey } from '../contract.ts'
import { day } from '../format.ts'
import { CopyButton } from '../parts/copy-button.ts'
import { Dialog } from '../parts/dialog.ts'
import { Select, TextField, TierField } from '../parts/field.ts'
import { apiError } from '../resource.ts'

export interface NewKeyDialogProps {
  readonly accounts: readonly Account[]
  /** The initial value of the account field. */
  readonly account: string
  readonly onCreated: () => void
  readonly onClose: () => void
}

const LIFETIMES = [
  ['', 'never'],
  ['1', 'in a day'],
  ['30', 'in 30 days'],
  ['90', 'in 90 days'],
  ['365', 'in a year'],
] as const

export function NewKeyDialog({ accounts, account, onCreated, onClose }: NewKeyDialogProps) {
  const [created, setCreated] = useState<NewKey | null>(null)
  if (created) return html`<${ShownOnce} newKey=${created} onClose=${onClose} />`
  const onKey = (key: NewKey) => {
    setCreated(key)
    onCreated()
  }
  return html`<${Form} accounts=${accounts} account=${account} onKey=${onKey} onClose=${onClose} />`
}

interface FormProps extends Omit<NewKeyDialogProps, 'onCreated'> {
  readonly onKey: (key: NewKey) => void
}

function Form({ accounts, account, onKey, onClose }: FormProps) {
  const listId = useId()
  const [name, setName] = useState(account)
  const [tier, setTier] = useState<string>('user_free')
  const [label, setLabel] = useState('')
  const [days, setDays] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  const [busy, setBusy] = useState(false)
  // The tier belongs to the account, so it is only chosen for a new account.
  const existing = accounts.find((one) => one.name === name.trim())
  const onSubmit = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    try {
      const body = {
        account: name.trim(),
        tier: existing?.tier ?? tier,
        ...(label.trim() !== '' && { label: label.trim() }),
        ...(days !== '' && { expires_days: Number(days) }),
      }
      onKey(await admin<NewKey>('/keys', { body }))
    } catch (problem) {
      setError(apiError(problem))
      setBusy(false)
    }
  }
  return html`<${Dialog} title="Create a key" onClose=${onClose}>
    <form onSubmit=${onSubmit}>
      <div class="dialog-text stack">
        <${TextField} label="Account" value=${name} onInput=${setName} list=${listId} required autofocus spellcheck=${false} autocomplete="off"
          hint="Jobs belong to the account. A new name creates an account." error=${error?.words} />
        <datalist id=${listId}>${accounts.map((one) => html`<option key=${one.name} value=${one.name} />`)}</datalist>
        ${
          existing
            ? html`<p class="hint">The account has the tier <strong>${existing.tier}</strong>.</p>`
            : html`<${TierField} label="Tier" value=${tier} onChange=${setTier} />`
        }
        <${TextField} label="Label (optional)" value=${label} onInput=${setLabel} maxlength="100" autocomplete="off" />
        <${Select} label="Expires" value=${days} options=${LIFETIMES} onChange=${setDays} />
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="button primary" disabled=${busy}>Create</button>
      </div>
    </form>
  <//>`
}

export function ShownOnce({ newKey, onClose }: { readonly newKey: NewKey; readonly onClose: () => void }) {
  const { key, account, expires_at } = newKey
  const text = useRef<HTMLParagraphElement>(null)
  useLayoutEffect(() => text.current?.focus(), [])
  return html`<${Dialog} title="The new key" onClose=${onClose}>
    <div class="dialog-text">
      <p ref=${text} tabindex="-1"><strong>This key is shown only once,</strong> because only its hash is stored. It belongs to the
        account <strong>${account}</strong>${expires_at === null ? '' : ` and expires on ${day(expires_at)}`}.</p>
      <p class="secret-line"><code class="breaks" data-key>${key}</code><${CopyButton} text=${key} what="the key" /></p>
    </div>
    <div class="dialog-actions"><button type="button" class="button primary" onClick=${onClose}>I have saved it</button></div>
  <//>`
}
