/** Runs an admin action: tracks whether it is in progress, and announces its result. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { announce } from './parts/announce.ts'
import { Confirm, type ConfirmProps } from './parts/dialog.ts'
import { apiError } from './resource.ts'

export interface Action {
  readonly busy: boolean
  readonly run: () => Promise<void>
}

/**
 * @param work returns the text to announce
 * @param onEnd called after success and after failure, because the page may show old data
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

export interface ConfirmedActionProps
  extends Pick<ConfirmProps, 'title' | 'children' | 'action' | 'back' | 'danger'> {
  /** The label of the button that opens the dialog. */
  readonly label: string
  /** The button's label for assistive technology, if other buttons have the same label. */
  readonly name?: string
  /** As for `useAction`. */
  readonly work: () => Promise<string>
  readonly onEnd: (isDone: boolean) => void
}

/** A button that opens a dialog, and runs an action when the operator confirms it. */
export function ConfirmedAction({ label, name, work, onEnd, ...dialog }: ConfirmedActionProps) {
  const [asking, setAsking] = useState(false)
  const { busy, run } = useAction(work, (isDone) => {
    setAsking(false)
    onEnd(isDone)
  })
  return html`<button type="button" class="button" aria-label=${name} onClick=${() => setAsking(true)}>${label}</button>
    ${asking && html`<${Confirm} ...${dialog} busy=${busy} onConfirm=${run} onClose=${() => setAsking(false)} />`}`
}
