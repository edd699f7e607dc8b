/** Deleting an account with all it has. It takes seconds at least, so the dialog says that it is under way, and may be left. */
import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { AccountDeleted } from '../contract-operations.ts'
import { count } from '../format.ts'
import { announce } from '../parts/announce.ts'
import { Dialog } from '../parts/dialog.ts'
import { TextField } from '../parts/field.ts'
import { Scrub } from '../parts/scrub.ts'
import { apiError } from '../resource.ts'
import { address, navigate } from '../router.ts'

export interface DeleteAccountProps {
  readonly name: string
  /** Told when it ended without the account being gone: much may have changed. */
  readonly onEnd: () => void
}

export function DeleteAccount({ name, onEnd }: DeleteAccountProps) {
  const [asking, setAsking] = useState(false)
  const [isUnderWay, setIsUnderWay] = useState(false)
  const [error, setError] = useState<string | null>(null)
  const isHere = useRef(true)
  useEffect(
    () => () => {
      isHere.current = false
    },
    [],
  )
  const remove = async (scrub: boolean) => {
    setIsUnderWay(true)
    setError(null)
    try {
      announce(wordsOf(name, await deleteAccount(name, scrub)))
      if (isHere.current) navigate(address(['accounts']))
    } catch (problem) {
      const words = troubleOf(apiError(problem))
      setError(words)
      announce(`${name}: ${words}`, true)
      setIsUnderWay(false)
      onEnd()
    }
  }
  const words = isUnderWay ? 'Being deleted…' : 'Delete the account…'
  return html`<button type="button" class="button danger" onClick=${() => setAsking(true)}>${words}</button>
    ${
      asking &&
      html`<${DeleteDialog} name=${name} isUnderWay=${isUnderWay} error=${error} onDelete=${remove} onClose=${() => setAsking(false)} />`
    }`
}

interface DeleteDialogProps {
  readonly name: string
  readonly isUnderWay: boolean
  readonly error: string | null
  readonly onDelete: (scrub: boolean) => void
  readonly onClose: () => void
}

function DeleteDialog({ name, isUnderWay, error, onDelete, onClose }: DeleteDialogProps) {
  const [typed, setTyped] = useState('')
  const [scrub, setScrub] = useState(true)
  const isSure = typed.trim() === name
  const onSubmit = (event: Event) => {
    event.preventDefault()
    if (isSure && !isUnderWay) onDelete(scrub)
  }
  return html`<${Dialog} title=${`Delete ${name}?`} onClose=${onClose}>
    <form onSubmit=${onSubmit} novalidate>
      <div class="dialog-text">
        <p>The account is suspended, and its jobs that wait or run are cancelled. Then all of its jobs with their conversations, answers and
          callbacks, its keys, secrets and usage go. <strong>Nothing brings them back.</strong> Callbacks that are owed are not sent.</p>
        <p>What stays: the audit log, which names the account and its jobs, what the server wrote to its log, and backups.</p>
        <${TextField} label="The account's name, to confirm" value=${typed} onInput=${setTyped} disabled=${isUnderWay} autofocus
          autocomplete="off" spellcheck=${false} error=${error} />
        <${Scrub} value=${scrub} onChange=${setScrub} disabled=${isUnderWay} />
        <div role="status">${isUnderWay && html`<${UnderWay} />`}</div>
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>${isUnderWay ? 'Close' : 'Cancel'}</button>
        <button type="submit" class="button danger" disabled=${!isSure || isUnderWay}>Delete for good</button>
      </div>
    </form>
  <//>`
}

function UnderWay() {
  return html`<p class="warning">It is being deleted. With few jobs this takes some seconds, with very many some minutes. It goes on when this
    is closed; the audit log says what came of it.</p>`
}

function deleteAccount(name: string, scrub: boolean): Promise<AccountDeleted> {
  return admin<AccountDeleted>(`/accounts/${encodeURIComponent(name)}?scrub=${scrub}`, { method: 'DELETE' })
}

function wordsOf(name: string, { jobs, cancelled }: AccountDeleted): string {
  const before = cancelled === 0 ? '' : `, ${count(cancelled)} of them cancelled before`
  return `${name} is deleted, with ${count(jobs)} ${jobs === 1 ? 'job' : 'jobs'}${before}.`
}

/** The server goes on where only its answer was lost. */
function troubleOf({ status, words }: ApiError): string {
  return status === 0 ? `${words} What came of it stands in the audit log.` : words
}
