/** Offers the admin actions on an account: its tier, suspension, jobs, signing secret and deletion. */
import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { Account, AccountDeleted } from '../contract.ts'
import { count, counted } from '../format.ts'
import { announce } from '../parts/announce.ts'
import { CopyButton } from '../parts/copy-and-save.ts'
import { ConfirmedAction, Dialog, useAction } from '../parts/dialog.ts'
import { Scrub, TextField, TierField } from '../parts/field.ts'
import { Panel } from '../parts/sections.ts'
import { apiError } from '../resource.ts'
import { address, navigate } from '../router.ts'

export interface ModerationProps {
  readonly account: Account
  readonly onChange: () => void
}

export function Moderation(props: ModerationProps) {
  const isSuspended = props.account.suspended_at !== null
  return html`<${Panel} title="Moderation">
    <div class="step-line">
      <p>${
        isSuspended
          ? 'The account is suspended: its keys can read jobs, but cannot create any.'
          : 'A suspended account can read its jobs, but cannot create any.'
      }</p>
      ${isSuspended ? html`<${Resume} ...${props} />` : html`<${Suspend} ...${props} />`}
    </div>
    <div class="step-line">
      <p>You can cancel its queued jobs and, optionally, its running jobs.</p>
      <${CancelJobs} ...${props} />
    </div>
  <//>`
}

function Suspend({ account: { name }, onChange }: ModerationProps) {
  const suspend = async () => {
    await admin(`/accounts/${encodeURIComponent(name)}/suspend`, { body: {} })
    return `${name} is suspended.`
  }
  return html`<${ConfirmedAction} label="Suspend account…" title=${`Suspend ${name}?`} action="Suspend account" danger work=${suspend} onEnd=${onChange}>
    <p>New jobs of the account are rejected with 403 within a few seconds, and the response explains why. Its jobs can still be read.</p>
    <p>Accepted jobs and their callbacks continue unless you cancel them separately. To lift the suspension, use <em>Resume account</em>.</p>
  <//>`
}

function Resume({ account: { name }, onChange }: ModerationProps) {
  const resume = useAction(async () => {
    await admin(`/accounts/${encodeURIComponent(name)}/resume`, { body: {} })
    return `${name} can create jobs again.`
  }, onChange)
  return html`<button type="button" class="button primary" disabled=${resume.busy} onClick=${resume.run}>Resume account</button>`
}

function CancelJobs({ account: { name }, onChange }: ModerationProps) {
  const [running, setRunning] = useState(false)
  const cancel = async () => {
    const path = `/accounts/${encodeURIComponent(name)}/cancel-jobs`
    const { cancelled } = await admin<{ cancelled: number }>(path, { body: { running } })
    return `${counted(cancelled, 'job')} ${cancelled === 1 ? 'was' : 'were'} cancelled.`
  }
  return html`<${ConfirmedAction} label="Cancel jobs…" title=${`Cancel jobs of ${name}?`} action="Cancel jobs" back="Keep jobs" danger work=${cancel} onEnd=${onChange}>
    <p>The jobs fail permanently with the code <code>cancelled</code>. Waiting requests are answered, and callbacks are sent. Jobs that are created later are not affected; to prevent new jobs, suspend the account first.</p>
    <label class="check"><input type="checkbox" checked=${running}
      onChange=${(event: Event) => setRunning((event.target as HTMLInputElement).checked)} />
      <span>Also cancel running jobs: their calls to models are aborted</span></label>
  <//>`
}

interface TierSelectProps {
  readonly name: string
  readonly tier: string
  readonly onChange: () => void
}

export function TierSelect({ name, tier, onChange }: TierSelectProps) {
  const setTier = async (to: string) => {
    try {
      await admin(`/accounts/${encodeURIComponent(name)}/tier`, { body: { tier: to } })
      announce(`The account ${name} now has the tier ${to}.`)
    } catch (error) {
      announce(apiError(error).words, true)
    }
    onChange()
  }
  return html`<${TierField} label=${`Tier of ${name}`} hideLabel value=${tier}
    onChange=${(to: string) => void setTier(to)} />`
}

interface SecretButtonProps {
  readonly account: string
  readonly onChange: () => void
}

export function SecretButton({ account, onChange }: SecretButtonProps) {
  const [isShown, setIsShown] = useState(false)
  return html`<button type="button" class="button" aria-label=${`Signing secret of ${account}`} onClick=${() => setIsShown(true)}>Secret…</button>
    ${isShown && html`<${SecretDialog} account=${account} onChange=${onChange} onClose=${() => setIsShown(false)} />`}`
}

interface SecretDialogProps extends SecretButtonProps {
  readonly onClose: () => void
}

function SecretDialog({ account, onChange, onClose }: SecretDialogProps) {
  const [secret, setSecret] = useState<string | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const [rotating, setRotating] = useState(false)
  const fetchSecret = async (rotate: boolean) => {
    setBusy(true)
    try {
      const body = rotate ? { rotate: true } : {}
      const answer = await admin<{ secret: string }>(`/accounts/${encodeURIComponent(account)}/secret`, {
        body,
      })
      setSecret(answer.secret)
      setError(null)
      if (rotate) {
        announce(`The secret of ${account} was rotated.`)
        onChange()
      }
    } catch (problem) {
      setError(apiError(problem).words)
    }
    setRotating(false)
    setBusy(false)
  }
  return html`<${Dialog} title=${`Signing secret of ${account}`} onClose=${onClose}>
    <div class="dialog-text">
      <p>This secret signs the account's callbacks according to Standard Webhooks.</p>
      ${secret !== null && html`<p class="secret-line"><code class="breaks">${secret}</code><${CopyButton} text=${secret} what="the secret" small /></p>`}
      ${
        rotating &&
        html`<p class="warning">This creates a new secret. For 24 hours, callbacks are signed with both secrets, so that you have time to update your receivers. If you rotate again within that time, the oldest secret ends at once.</p>`
      }
      ${error && html`<p class="field-error" role="alert">${error}</p>`}
    </div>
    <div class="dialog-actions">
      <button type="button" class="button" onClick=${onClose}>Close</button>
      ${
        rotating
          ? html`<button type="button" class="button danger" disabled=${busy} onClick=${() => fetchSecret(true)}>Rotate now</button>`
          : html`<button type="button" class="button" disabled=${busy} onClick=${() => setRotating(true)}>Rotate…</button>
              ${secret === null && html`<button type="button" class="button primary" disabled=${busy} onClick=${() => fetchSecret(false)}>Show (logged)</button>`}`
      }
    </div>
  <//>`
}

interface DeleteAccountProps {
  readonly name: string
  /** Called after a failed deletion, which may have deleted parts of the account. */
  readonly onFailed: () => void
}

/** A deletion takes several seconds, so the dialog shows that it is in progress, and the operator can close the dialog. */
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

/** After these statuses, the server may still be deleting: there was no response, or a proxy did not wait for it. */
const LOST: readonly number[] = [0, 502, 504]

function errorText({ status, words }: ApiError): string {
  return LOST.includes(status) ? `${words} The audit log shows whether the account was deleted.` : words
}
