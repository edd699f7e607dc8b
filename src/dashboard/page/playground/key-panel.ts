/** Where the playground gets its API key: pasted, or made for a day. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import { type NewKey, TIERS } from '../contract.ts'
import { Select, TextField } from '../parts/field.ts'
import { Panel } from '../parts/panel.ts'
import { apiError } from '../resource.ts'
import type { PlaygroundCaller } from './caller.ts'

export function KeyPanel({ caller }: { readonly caller: PlaygroundCaller }) {
  const [tier, setTier] = useState<string>('user_max')
  const [pasted, setPasted] = useState('')
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const make = async () => {
    setBusy(true)
    try {
      // An account has one tier, so each tier's keys belong to an account of their own.
      const made = await admin<NewKey>('/keys', {
        body: { account: `playground-${tier}`, tier, expires_days: 1 },
      })
      setError(null)
      caller.use(made.key)
    } catch (problem) {
      setError(apiError(problem).words)
    }
    setBusy(false)
  }
  const onSubmit = (event: Event) => {
    event.preventDefault()
    if (pasted.trim() !== '') caller.use(pasted.trim())
  }
  const refused =
    caller.error && (caller.error.status === 401 ? 'The server does not take this key.' : caller.error.words)
  return html`<${Panel} title="An API key to call with">
    <p class="hint">The playground calls the public interface as any program does. The key stays in this tab.</p>
    <div class="key-ways">
      <div class="inline-form">
        <${Select} label="Tier" value=${tier} options=${TIERS.map((one) => [one, one])} onChange=${setTier} />
        <button type="button" class="button primary" disabled=${busy} onClick=${make}>Make a key for a day</button>
      </div>
      <form class="inline-form" onSubmit=${onSubmit}>
        <${TextField} label="or paste one" type="password" value=${pasted} onInput=${setPasted} placeholder="prl_…" autocomplete="off" spellcheck="false" />
        <button type="submit" class="button">Use it</button>
      </form>
    </div>
    ${(error ?? refused) && html`<p class="field-error" role="alert">${error ?? refused}</p>`}
  <//>`
}
