/**
 * The sign-in page asks for the admin token and an optional name. The token is checked before it is stored in the tab. The
 * operator can change the name later.
 */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { isTokenAccepted } from './api.ts'
import { announce } from './parts/announce.ts'
import { Dialog } from './parts/dialog.ts'
import { TextField } from './parts/field.ts'
import { Icon, Logo } from './parts/labels.ts'
import { apiError } from './resource.ts'
import {
  onSessionChange,
  operatorName,
  operatorNameProblem,
  setOperatorName,
  signIn,
  signInNotice,
} from './session.ts'

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

export function Operator() {
  const [name, setName] = useState(operatorName())
  const [asking, setAsking] = useState(false)
  useEffect(() => onSessionChange(() => setName(operatorName())), [])
  const label =
    name === null ? 'Set your name for the audit log' : `Your name for the audit log: ${name}. Change it`
  return html`<button type="button" class="operator" aria-label=${label} title=${label} onClick=${() => setAsking(true)}>
      <${Icon} name="accounts" />${name !== null && html`<span class="wide">${name}</span>`}
    </button>
    ${asking && html`<${NameDialog} name=${name ?? ''} onClose=${() => setAsking(false)} />`}`
}

function NameDialog({ name, onClose }: { readonly name: string; readonly onClose: () => void }) {
  const [typed, setTyped] = useState(name)
  const [error, setError] = useState<string | null>(null)
  const onSubmit = (event: Event) => {
    event.preventDefault()
    const given = typed.trim()
    const problem = operatorNameProblem(given)
    setError(problem)
    if (problem !== null) return
    setOperatorName(given)
    announce(
      given === ''
        ? 'The audit log records your actions without a name.'
        : `The audit log records your actions as ${given}.`,
    )
    onClose()
  }
  return html`<${Dialog} title="Your name" onClose=${onClose}>
    <form onSubmit=${onSubmit} novalidate>
      <div class="dialog-text">
        <${TextField} label="Name" value=${typed} onInput=${setTyped} error=${error} autofocus autocomplete="off" spellcheck=${false}
          hint="The audit log shows this name next to your IP address. It is not verified, and is stored in this tab only." />
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="button primary">Save</button>
      </div>
    </form>
  <//>`
}
