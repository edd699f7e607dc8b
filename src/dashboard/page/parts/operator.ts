/** Who the audit log says it was: shown at the top, and changed there. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { onSessionChange, operatorName, operatorNameProblem, setOperatorName } from '../session.ts'
import { announce } from './announce.ts'
import { Dialog } from './dialog.ts'
import { TextField } from './field.ts'
import { Icon } from './icon.ts'

export function Operator() {
  const [name, setName] = useState(operatorName())
  const [asking, setAsking] = useState(false)
  useEffect(() => onSessionChange(() => setName(operatorName())), [])
  const words =
    name === null ? 'Say who you are, for the audit log' : `You are ${name}, for the audit log; change it`
  return html`<button type="button" class="operator" aria-label=${words} title=${words} onClick=${() => setAsking(true)}>
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
      given === '' ? 'The audit log gets no name from this tab.' : `The audit log knows you as ${given}.`,
    )
    onClose()
  }
  return html`<${Dialog} title="Your name" onClose=${onClose}>
    <form onSubmit=${onSubmit} novalidate>
      <div class="dialog-text">
        <${TextField} label="Name" value=${typed} onInput=${setTyped} error=${error} autofocus autocomplete="off" spellcheck=${false}
          hint="All who have the admin token may do the same; the audit log tells them apart by this name and their address. Nobody checks it. This tab keeps it." />
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="button primary">Keep</button>
      </div>
    </form>
  <//>`
}
