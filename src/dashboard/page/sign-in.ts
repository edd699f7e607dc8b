/** The sign-in page: asks for the admin token and an optional name. The token is verified before it is stored in the tab. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { isTokenAccepted } from './api.ts'
import { TextField } from './parts/field.ts'
import { Logo } from './parts/logo.ts'
import { apiError } from './resource.ts'
import { operatorNameProblem, signIn, signInNotice } from './session.ts'

export function SignIn() {
  const [token, setToken] = useState('')
  const [name, setName] = useState('')
  const [nameError, setNameError] = useState<string | null>(null)
  const [error, setError] = useState(signInNotice())
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    document.title = 'Sign in · Parley'
  }, [])
  const onSubmit = async (event: Event) => {
    event.preventDefault()
    const given = token.trim()
    if (given === '') return setError('Enter the admin token.')
    const fault = operatorNameProblem(name.trim())
    setNameError(fault)
    if (fault !== null) return
    setBusy(true)
    try {
      if (await isTokenAccepted(given)) return signIn(given, name.trim())
      setError('This is not the admin token of this server.')
    } catch (problem) {
      setError(apiError(problem).words)
    }
    setBusy(false)
  }
  return html`<main class="sign-in" id="main">
    <form onSubmit=${onSubmit} novalidate>
      <${Logo} />
      <h1>Sign in</h1>
      <${TextField} label="Admin token" type="password" value=${token} onInput=${setToken} error=${error} autofocus autocomplete="off" spellcheck=${false} />
      <${TextField} label="Your name (optional)" value=${name} onInput=${setName} error=${nameError} autocomplete="off" spellcheck=${false}
        hint="The audit log records it with your actions." />
      <button type="submit" class="button primary" disabled=${busy}>${busy ? 'Checking…' : 'Sign in'}</button>
      <details>
        <summary>Where can I find the token?</summary>
        <p class="hint">It is the value of <code>PARLEY_ADMIN_TOKEN</code> on the server. If that variable is not set, the server generated a
          token at its first start and stored it in a file next to its database that only its owner can read.</p>
        <p class="hint">The token is stored in this tab until you close the tab or sign out.</p>
      </details>
    </form>
  </main>`
}
