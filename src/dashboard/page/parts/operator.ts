/** Shows the operator's name for the audit log, and lets the operator change it. */
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
