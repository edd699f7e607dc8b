/** The browser's own modal dialog: it holds the focus, ends with Escape, and gives the focus back. */
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
  /** What will happen, in a sentence or two. */
  readonly children: ComponentChildren
  /** The word on the button that does it. */
  readonly action: string
  /** The word on the button that does nothing, where *Cancel* could be misread. */
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
