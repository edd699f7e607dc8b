/** Takes data out of the page: a button that copies a text, preformatted text with such a button, and saving as a file. */
import { html } from 'htm/preact'
import { announce } from './announce.ts'
import { Icon } from './labels.ts'

export interface CopyButtonProps {
  readonly text: string
  /** The button's label names the text with these words, such as `the key`. */
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

/** The clipboard API works only on HTTPS and localhost. Elsewhere, the older `execCommand` is used. */
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
  // While a modal dialog is open, only text inside it can be selected.
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
  /** Screen readers and the copy button name the text with these words, such as `the answer`. */
  readonly what: string
  readonly copy?: boolean
}

/** The text must be focusable, so that it can be scrolled with the keyboard. */
export function CodeBlock({ text, what, copy = true }: CodeBlockProps) {
  return html`<div class="code-block">
    <pre tabindex="0" role="region" aria-label=${what}>${text}</pre>
    ${copy && html`<${CopyButton} text=${text} what=${what} small />`}
  </div>`
}

export function saveAs(content: Blob, name: string): void {
  const url = URL.createObjectURL(content)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // The download has started when `click` returns, so the URL is no longer needed.
  URL.revokeObjectURL(url)
}
