/** Keeps the API key that the playground uses, with its account, tier and limits, and asks for a key. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, admin, callWithKey } from '../api.ts'
import type { NewKey } from '../contract.ts'
import { TextField, TierField } from '../parts/field.ts'
import { Panel } from '../parts/sections.ts'
import { apiError } from '../resource.ts'
import { keepPlaygroundKey, playgroundKey } from '../session.ts'

export interface Me {
  readonly account: string
  readonly tier: string
  readonly models: readonly string[]
  readonly limits: { readonly max_batch_jobs: number; readonly reads_per_minute: number }
}

export interface PlaygroundCaller {
  readonly key: string | null
  /** `me` is null until the tier and the limits of the key are loaded. */
  readonly me: Me | null
  readonly error: ApiError | null
  readonly use: (key: string) => void
  readonly forget: () => void
}

export function usePlaygroundCaller(): PlaygroundCaller {
  const [key, setKey] = useState(playgroundKey())
  const [me, setMe] = useState<Me | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const forget = () => {
    keepPlaygroundKey(null)
    setKey(null)
    setMe(null)
  }
  useEffect(() => {
    if (key === null) return
    const controller = new AbortController()
    callWithKey<Me>('/api/v1/me', key, { signal: controller.signal }).then(
      ({ data }) => {
        keepPlaygroundKey(key)
        setMe(data)
      },
      (problem: unknown) => {
        if (controller.signal.aborted) return
        forget()
        setError(apiError(problem))
      },
    )
    return () => controller.abort()
  }, [key])
  const use = (given: string) => {
    setError(null)
    setKey(given)
  }
  return { key, me, error, use, forget }
}

/** The panel accepts an existing key, or creates a key that is valid for a day. */
export function KeyPanel({ caller }: { readonly caller: PlaygroundCaller }) {
  const [tier, setTier] = useState<string>('user_max')
  const [pasted, setPasted] = useState('')
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const createKey = async () => {
    setBusy(true)
    try {
      // An account has one tier, so the keys of each tier have their own account.
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
