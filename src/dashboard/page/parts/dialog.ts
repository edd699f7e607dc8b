/**
 * Renders modal dialogs, and runs admin actions when the operator confirms a dialog. The browser's `dialog` element keeps the
 * focus inside, restores it afterwards, and closes with Escape.
 */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { apiError } from '../resource.ts'
import { announce } from './announce.ts'

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useLayoutEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    return () => shown?.close()
  }, [])
  const onCancel = (event: Event) => {
    event.preventDefault()
    onClose()
  }
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby=${id} onCancel=${onCancel}>
    <h2 id=${id}>${title}</h2>
    ${children}
  </dialog>`
}

interface ConfirmProps {
  readonly title: string
  /** Explains in one or two sentences what will happen. */
  readonly children: ComponentChildren
  readonly action: string
  /** `back` labels the button that closes the dialog. Without it, the button is *Cancel*. */
  readonly back?: string
  readonly danger?: boolean
  readonly busy?: boolean
  readonly onConfirm: () => void
  readonly onClose: () => void
}

function Confirm({
  title,
  children,
  action,
  back = 'Cancel',
  danger = false,
  busy = false,
  ...on
}: ConfirmProps) {
  return html`<${Dialog} title=${title} onClose=${on.onClose}>
    <div class="dialog-text">${children}</div>
    <div class="dialog-actions">
      <button type="button" class="button" onClick=${on.onClose}>${back}</button>
      <button type="button" class=${danger ? 'button danger' : 'button primary'} disabled=${busy} onClick=${on.onConfirm}>
        ${action}
      </button>
    </div>
  <//>`
}

interface Action {
  readonly busy: boolean
  readonly run: () => Promise<void>
}

/**
 * Runs an admin action, tracks whether it is in progress, and announces its result.
 * @param work resolves with the text to announce
 * @param onEnd called after success and after failure, because in both cases the page may show old data
 */
export function useAction(work: () => Promise<string>, onEnd: (isDone: boolean) => void): Action {
  const [busy, setBusy] = useState(false)
  const run = async () => {
    setBusy(true)
    let isDone = false
    try {
      announce(await work())
      isDone = true
    } catch (error) {
      announce(apiError(error).words, true)
    }
    setBusy(false)
    onEnd(isDone)
  }
  return { busy, run }
}

interface ConfirmedActionProps
  extends Pick<ConfirmProps, 'title' | 'children' | 'action' | 'back' | 'danger'> {
  readonly label: string
  /** Screen readers use this name if other buttons have the same label. */
  readonly name?: string
  /** Resolves with the text to announce. */
  readonly work: () => Promise<string>
  readonly onEnd: (isDone: boolean) => void
}

export function ConfirmedAction({ label, name, work, onEnd, ...dialog }: ConfirmedActionProps) {
  const [asking, setAsking] = useState(false)
  const { busy, run } = useAction(work, (isDone) => {
    setAsking(false)
    onEnd(isDone)
  })
  return html`<button type="button" class="button" aria-label=${name} onClick=${() => setAsking(true)}>${label}</button>
    ${asking && html`<${Confirm} ...${dialog} busy=${busy} onConfirm=${run} onClose=${() => setAsking(false)} />`}`
}
