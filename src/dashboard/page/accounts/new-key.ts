/** Making a key. It is shown this once, so the dialog stays until somebody says that they have it. */
import { html } from 'htm/preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import { type Account, type NewKey, TIERS } from '../contract.ts'
import { day } from '../format.ts'
import { CopyButton } from '../parts/copy-button.ts'
import { Dialog } from '../parts/dialog.ts'
import { Select, TextField } from '../parts/field.ts'
import { apiError } from '../resource.ts'

export interface NewKeyDialogProps {
  readonly accounts: readonly Account[]
  /** Filled in at first. */
  readonly account: string
  readonly onMade: () => void
  readonly onClose: () => void
}

const ENDS = [
  ['', 'never'],
  ['1', 'in a day'],
  ['30', 'in 30 days'],
  ['90', 'in 90 days'],
  ['365', 'in a year'],
] as const

export function NewKeyDialog({ accounts, account, onMade, onClose }: NewKeyDialogProps) {
  const [made, setMade] = useState<NewKey | null>(null)
  if (made) return html`<${ShownOnce} made=${made} onClose=${onClose} />`
  const onKey = (key: NewKey) => {
    setMade(key)
    onMade()
  }
  return html`<${Form} accounts=${accounts} account=${account} onKey=${onKey} onClose=${onClose} />`
}

interface FormProps extends Omit<NewKeyDialogProps, 'onMade'> {
  readonly onKey: (key: NewKey) => void
}

function Form({ accounts, account, onKey, onClose }: FormProps) {
  const listId = useId()
  const [name, setName] = useState(account)
  const [tier, setTier] = useState<string>('user_free')
  const [days, setDays] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  const [busy, setBusy] = useState(false)
  // The tier belongs to the account: of one that is there already it is not chosen here.
  const existing = accounts.find((one) => one.name === name.trim())
  const onSubmit = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    try {
      const body = {
        account: name.trim(),
        tier: existing?.tier ?? tier,
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
          hint="Jobs belong to the account. A new name makes a new account." error=${error?.words} />
        <datalist id=${listId}>${accounts.map((one) => html`<option key=${one.name} value=${one.name} />`)}</datalist>
        ${
          existing
            ? html`<p class="hint">The account has the tier <strong>${existing.tier}</strong>.</p>`
            : html`<${Select} label="Tier" value=${tier} options=${TIERS.map((one) => [one, one])} onChange=${setTier} />`
        }
        <${Select} label="Ends" value=${days} options=${ENDS} onChange=${setDays} />
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="button primary" disabled=${busy}>Create</button>
      </div>
    </form>
  <//>`
}

function ShownOnce({ made, onClose }: { readonly made: NewKey; readonly onClose: () => void }) {
  const { key, account, expires_at } = made
  const text = useRef<HTMLParagraphElement>(null)
  useLayoutEffect(() => text.current?.focus(), [])
  return html`<${Dialog} title="The new key" onClose=${onClose}>
    <div class="dialog-text">
      <p ref=${text} tabindex="-1"><strong>This is the only time that it is shown.</strong> Only a hash of it is stored. It is a key of
        the account <strong>${account}</strong>${expires_at === null ? '' : ` and ends on ${day(expires_at)}`}.</p>
      <p class="secret-line"><code class="breaks" data-key>${key}</code><${CopyButton} text=${key} what="the key" /></p>
    </div>
    <div class="dialog-actions"><button type="button" class="button primary" onClick=${onClose}>I have it</button></div>
  <//>`
}
