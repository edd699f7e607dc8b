/** Shows and rotates the secret that signs an account's callbacks. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import { announce } from '../parts/announce.ts'
import { CopyButton } from '../parts/copy-button.ts'
import { Dialog } from '../parts/dialog.ts'
import { apiError } from '../resource.ts'

export interface SecretButtonProps {
  readonly account: string
  readonly onChange: () => void
}

export function SecretButton({ account, onChange }: SecretButtonProps) {
  const [isShown, setIsShown] = useState(false)
  return html`<button type="button" class="button" aria-label=${`Signing secret of ${account}`} onClick=${() => setIsShown(true)}>Secret…</button>
    ${isShown && html`<${SecretDialog} account=${account} onChange=${onChange} onClose=${() => setIsShown(false)} />`}`
}

interface SecretDialogProps extends SecretButtonProps {
  readonly onClose: () => void
}

function SecretDialog({ account, onChange, onClose }: SecretDialogProps) {
  const [secret, setSecret] = useState<string | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const [rotating, setRotating] = useState(false)
  const fetchSecret = async (rotate: boolean) => {
    setBusy(true)
    try {
      const body = rotate ? { rotate: true } : {}
      const answer = await admin<{ secret: string }>(`/accounts/${encodeURIComponent(account)}/secret`, {
        body,
      })
      setSecret(answer.secret)
      setError(null)
      if (rotate) {
        announce(`The secret of ${account} was rotated.`)
        onChange()
      }
    } catch (problem) {
      setError(apiError(problem).words)
    }
    setRotating(false)
    setBusy(false)
  }
  return html`<${Dialog} title=${`Signing secret of ${account}`} onClose=${onClose}>
    <div class="dialog-text">
      <p>This secret signs the account's callbacks according to Standard Webhooks.</p>
      ${secret !== null && html`<p class="secret-line"><code class="breaks">${secret}</code><${CopyButton} text=${secret} what="the secret" small /></p>`}
      ${
        rotating &&
        html`<p class="warning">This creates a new secret. For 24 hours, callbacks are signed with both secrets, so that you have time to update your receivers.</p>`
      }
      ${error && html`<p class="field-error" role="alert">${error}</p>`}
    </div>
    <div class="dialog-actions">
      <button type="button" class="button" onClick=${onClose}>Close</button>
      ${
        rotating
          ? html`<button type="button" class="button danger" disabled=${busy} onClick=${() => fetchSecret(true)}>Rotate now</button>`
          : html`<button type="button" class="button" disabled=${busy} onClick=${() => setRotating(true)}>Rotate…</button>
              ${secret === null && html`<button type="button" class="button primary" disabled=${busy} onClick=${() => fetchSecret(false)}>Show (logged)</button>`}`
      }
    </div>
  <//>`
}
