/** Asks for the API key of the playground, or creates one that is valid for a day. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { NewKey } from '../contract.ts'
import { TextField } from '../parts/field.ts'
import { Panel } from '../parts/panel.ts'
import { TierField } from '../parts/tier-field.ts'
import { apiError } from '../resource.ts'
import type { PlaygroundCaller } from './caller.ts'

export function KeyPanel({ caller }: { readonly caller: PlaygroundCaller }) {
  const [tier, setTier] = useState<string>('user_max')
  const [pasted, setPasted] = useState('')
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const createKey = async () => {
    setBusy(true)
    try {
      // An account has one tier, so each tier's keys belong to an account of their own.
      const created = await admin<NewKey>('/keys', {
        body: { account: `playground-${tier}`, tier, expires_days: 1 },
      })
      setError(null)
      caller.use(created.key)
    } catch (problem) {
      setError(apiError(problem).words)
    }
    setBusy(false)
  }
  const onSubmit = (event: Event) => {
    event.preventDefault()
    if (pasted.trim() !== '') caller.use(pasted.trim())
  }
  const keyError =
    caller.error &&
    (caller.error.status === 401 ? 'The server does not accept this key.' : caller.error.words)
  return html`<${Panel} title="API key">
    <p class="hint">The playground calls the public API like any other client. The key is stored in this tab only.</p>
    <div class="key-options">
      <div class="inline-form">
        <${TierField} label="Tier" value=${tier} onChange=${setTier} />
        <button type="button" class="button primary" disabled=${busy} onClick=${createKey}>Create a key for one day</button>
      </div>
      <form class="inline-form" onSubmit=${onSubmit}>
        <${TextField} label="Or paste a key" type="password" value=${pasted} onInput=${setPasted} placeholder="prl_…" autocomplete="off" spellcheck="false" />
        <button type="submit" class="button">Use this key</button>
      </form>
    </div>
    ${(error ?? keyError) && html`<p class="field-error" role="alert">${error ?? keyError}</p>`}
  <//>`
}
