/** Preformatted text with a copy button. It can be scrolled with the keyboard. */
import { html } from 'htm/preact'
import { CopyButton } from './copy-button.ts'

export interface CodeBlockProps {
  readonly text: string
  /** Names the text for assistive technology and for the copy button, for example `the answer`. */
  readonly what: string
  readonly copy?: boolean
}

export function CodeBlock({ text, what, copy = true }: CodeBlockProps) {
  return html`<div class="code-block">
    <pre tabindex="0" role="region" aria-label=${what}>${text}</pre>
    ${copy && html`<${CopyButton} text=${text} what=${what} small />`}
  </div>`
}
