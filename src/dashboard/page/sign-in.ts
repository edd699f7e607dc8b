/** Asks for the admin token and, if one likes, a name. The token is tried before it is kept, and kept only as long as the tab. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { tokenIsRight } from './api.ts'
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
    if (given === '') return setError('Paste the admin token.')
    const fault = operatorNameProblem(name.trim())
    setNameError(fault)
    if (fault !== null) return
    setBusy(true)
    try {
      if (await tokenIsRight(given)) return signIn(given, name.trim())
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
        hint="The audit log says who did what by it." />
      <button type="submit" class="button primary" disabled=${busy}>${busy ? 'Checking…' : 'Sign in'}</button>
      <details>
        <summary>Where is it?</summary>
        <p class="hint">It is what <code>PARLEY_ADMIN_TOKEN</code> says where the server runs. Without that variable the server made one at its
          first start and keeps it in a file beside its database, readable by its owner only.</p>
        <p class="hint">This tab keeps it until it is closed or you sign out.</p>
      </details>
    </form>
  </main>`
}
