/**
 * Deletes an account with all its data. This takes several seconds, so the dialog shows that it is in progress and can be
 * closed.
 */
import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { AccountDeleted } from '../contract.ts'
import { count } from '../format.ts'
import { announce } from '../parts/announce.ts'
import { Dialog } from '../parts/dialog.ts'
import { Scrub, TextField } from '../parts/field.ts'
import { apiError } from '../resource.ts'
import { address, navigate } from '../router.ts'

export interface DeleteAccountProps {
  readonly name: string
  /** Called when the deletion failed: parts of the account may be deleted. */
  readonly onFailed: () => void
}

export function DeleteAccount({ name, onFailed }: DeleteAccountProps) {
  const [asking, setAsking] = useState(false)
  const [isDeleting, setIsDeleting] = useState(false)
  const [error, setError] = useState<string | null>(null)
  const isMounted = useRef(true)
  useEffect(
    () => () => {
      isMounted.current = false
    },
    [],
  )
  const remove = async (scrub: boolean) => {
    setIsDeleting(true)
    setError(null)
    try {
      announce(resultText(name, await deleteAccount(name, scrub)))
      if (isMounted.current) navigate(address(['accounts']))
    } catch (problem) {
      const text = errorText(apiError(problem))
      setError(text)
      announce(`${name}: ${text}`, true)
      setIsDeleting(false)
      onFailed()
    }
  }
  const label = isDeleting ? 'Deleting…' : 'Delete account…'
  return html`<button type="button" class="button danger" onClick=${() => setAsking(true)}>${label}</button>
    ${
      asking &&
      html`<${DeleteDialog} name=${name} isDeleting=${isDeleting} error=${error} onDelete=${remove} onClose=${() => setAsking(false)} />`
    }`
}

interface DeleteDialogProps {
  readonly name: string
  readonly isDeleting: boolean
  readonly error: string | null
  readonly onDelete: (scrub: boolean) => void
  readonly onClose: () => void
}

function DeleteDialog({ name, isDeleting, error, onDelete, onClose }: DeleteDialogProps) {
  const [typed, setTyped] = useState('')
  const [scrub, setScrub] = useState(true)
  const isSure = typed.trim() === name
  const onSubmit = (event: Event) => {
    event.preventDefault()
    if (isSure && !isDeleting) onDelete(scrub)
  }
  return html`<${Dialog} title=${`Delete ${name}?`} onClose=${onClose}>
    <form onSubmit=${onSubmit} novalidate>
      <div class="dialog-text">
        <p>This suspends the account and cancels its queued and running jobs. Then it deletes all of its jobs with their conversations,
          answers and callbacks, and its keys and secrets. Its usage stays, under another name. <strong>This cannot be undone.</strong> Pending callbacks
          are not sent.</p>
        <p>The audit log, the server's log and backups are not deleted. The audit log names the account and its jobs.</p>
        <${TextField} label="Type the account's name to confirm" value=${typed} onInput=${setTyped} disabled=${isDeleting} autofocus
          autocomplete="off" spellcheck=${false} error=${error} />
        <${Scrub} value=${scrub} onChange=${setScrub} disabled=${isDeleting} />
        <div role="status">${isDeleting && html`<${InProgress} />`}</div>
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>${isDeleting ? 'Close' : 'Cancel'}</button>
        <button type="submit" class="button danger" disabled=${!isSure || isDeleting}>Delete permanently</button>
      </div>
    </form>
  <//>`
}

function InProgress() {
  return html`<p class="warning">The account is being deleted. This takes a few seconds, or some minutes if it has very many jobs. It
    continues when you close this dialog; the audit log records the result.</p>`
}

function deleteAccount(name: string, scrub: boolean): Promise<AccountDeleted> {
  return admin<AccountDeleted>(`/accounts/${encodeURIComponent(name)}?scrub=${scrub}`, { method: 'DELETE' })
}

function resultText(name: string, { jobs, cancelled, usage_as }: AccountDeleted): string {
  const before = cancelled === 0 ? '' : `, ${count(cancelled)} of them cancelled first`
  const kept = usage_as === null ? '' : ` Its usage is listed as ${usage_as} now.`
  return `${name} was deleted with ${count(jobs)} ${jobs === 1 ? 'job' : 'jobs'}${before}.${kept}`
}

/** If only the response was lost, the server continues with the deletion. */
function errorText({ status, words }: ApiError): string {
  return status === 0 ? `${words} The audit log shows whether the account was deleted.` : words
}
