/** Sets the URL that receives an account's events. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { Account } from '../contract.ts'
import { announce } from '../parts/announce.ts'
import { Dialog } from '../parts/dialog.ts'
import { TextField } from '../parts/field.ts'
import { apiError } from '../resource.ts'

export interface WebhookButtonProps {
  readonly account: Account
  readonly onChange: () => void
}

export function WebhookButton({ account, onChange }: WebhookButtonProps) {
  const [isShown, setIsShown] = useState(false)
  return html`<button type="button" class="button" onClick=${() => setIsShown(true)}>Change webhook…</button>
    ${isShown && html`<${WebhookDialog} account=${account} onChange=${onChange} onClose=${() => setIsShown(false)} />`}`
}

interface WebhookDialogProps extends WebhookButtonProps {
  readonly onClose: () => void
}

function WebhookDialog({ account: { name, webhook_url }, onChange, onClose }: WebhookDialogProps) {
  const [url, setUrl] = useState(webhook_url ?? '')
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const save = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    try {
      const body = { url: url.trim() === '' ? null : url.trim() }
      await admin(`/accounts/${encodeURIComponent(name)}/webhook`, { body })
      announce(body.url === null ? `${name} has no webhook.` : `The webhook of ${name} is set.`)
      onChange()
      onClose()
    } catch (problem) {
      setError(apiError(problem).words)
      setBusy(false)
    }
  }
  return html`<${Dialog} title=${`Webhook of ${name}`} onClose=${onClose}>
    <form onSubmit=${save} novalidate>
      <div class="dialog-text">
        <p>Events report how background responses and batches ended. They are signed, retried and replayed like callbacks.</p>
        <${TextField} label="URL" type="url" value=${url} onInput=${setUrl} error=${error} autocomplete="off"
          hint="Leave it empty to send no events. Existing responses and batches keep their address." />
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>Close</button>
        <button type="submit" class="button primary" disabled=${busy}>Set webhook</button>
      </div>
    </form>
  <//>`
}
