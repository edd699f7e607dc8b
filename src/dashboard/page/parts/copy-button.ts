/** Copies a text to the clipboard and announces it: a button, and preformatted text that has one. */
import { html } from 'htm/preact'
import { announce } from './announce.ts'
import { Icon } from './icon.ts'

export interface CopyButtonProps {
  readonly text: string
  /** Names the text in the button's label, for example `the key`. */
  readonly what: string
  readonly small?: boolean
}

export function CopyButton({ text, what, small = false }: CopyButtonProps) {
  const onClick = async () => {
    const copied = await copy(text)
    announce(
      copied ? `Copied ${what}.` : `The browser did not allow copying. Select and copy ${what} manually.`,
      !copied,
    )
  }
  return html`<button type="button" class=${small ? 'icon-button' : 'button'} onClick=${onClick}
    aria-label=${`Copy ${what}`} title=${`Copy ${what}`}>
    <${Icon} name="copy" />${small ? null : html`<span>Copy</span>`}
  </button>`
}

/** Browsers offer the clipboard API only on HTTPS and localhost; otherwise the older `execCommand` works. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copyBySelection(text)
  }
}

function copyBySelection(text: string): boolean {
  const before = document.activeElement
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'visually-hidden'
  // While a modal dialog is open, nothing outside of it can be selected.
  const parent = document.querySelector('dialog[open]') ?? document.body
  parent.append(area)
  area.select()
  const copied = document.execCommand('copy')
  area.remove()
  if (before instanceof HTMLElement) before.focus()
  return copied
}

interface CodeBlockProps {
  readonly text: string
  /** Names the text for assistive technology and for the copy button, for example `the answer`. */
  readonly what: string
  readonly copy?: boolean
}

/** Preformatted text with a copy button. It can be scrolled with the keyboard. */
export function CodeBlock({ text, what, copy = true }: CodeBlockProps) {
  return html`<div class="code-block">
    <pre tabindex="0" role="region" aria-label=${what}>${text}</pre>
    ${copy && html`<${CopyButton} text=${text} what=${what} small />`}
  </div>`
}
