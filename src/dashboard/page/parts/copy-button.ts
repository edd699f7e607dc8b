/** Copies a text, and says so. */
import { html } from 'htm/preact'
import { announce } from './announce.ts'
import { Icon } from './icon.ts'

export interface CopyButtonProps {
  readonly text: string
  /** What is copied, for the button's name: `the key`. */
  readonly what: string
  readonly small?: boolean
}

export function CopyButton({ text, what, small = false }: CopyButtonProps) {
  const onClick = async () => {
    const copied = await copy(text)
    announce(
      copied ? `Copied ${what}.` : `This browser does not let pages copy; select ${what} by hand.`,
      !copied,
    )
  }
  return html`<button type="button" class=${small ? 'icon-button' : 'button'} onClick=${onClick}
    aria-label=${`Copy ${what}`} title=${`Copy ${what}`}>
    <${Icon} name="copy" />${small ? null : html`<span>Copy</span>`}
  </button>`
}

/** The clipboard is there on https and localhost only; elsewhere the old way still works. */
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
  // Inside an open dialog nothing outside of it can be selected.
  const home = document.querySelector('dialog[open]') ?? document.body
  home.append(area)
  area.select()
  const copied = document.execCommand('copy')
  area.remove()
  if (before instanceof HTMLElement) before.focus()
  return copied
}
