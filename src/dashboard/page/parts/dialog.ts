/** A modal dialog based on the browser's `dialog` element, which traps and restores the focus and closes with Escape. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'

export interface DialogProps {
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

export interface ConfirmProps {
  readonly title: string
  /** Explains in a sentence or two what will happen. */
  readonly children: ComponentChildren
  /** The label of the button that confirms. */
  readonly action: string
  /** The label of the button that closes the dialog, if *Cancel* would be ambiguous. */
  readonly back?: string
  readonly danger?: boolean
  readonly busy?: boolean
  readonly onConfirm: () => void
  readonly onClose: () => void
}

export function Confirm({
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
