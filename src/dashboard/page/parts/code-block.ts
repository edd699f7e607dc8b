/** Text in the type of code, to be read and copied. It scrolls within itself, by keyboard too. */
import { html } from 'htm/preact'
import { CopyButton } from './copy-button.ts'

export interface CodeBlockProps {
  readonly text: string
  /** What it is, for its name and its copy button: `the answer`. */
  readonly what: string
  readonly copy?: boolean
}

export function CodeBlock({ text, what, copy = true }: CodeBlockProps) {
  return html`<div class="code-block">
    <pre tabindex="0" role="region" aria-label=${what}>${text}</pre>
    ${copy && html`<${CopyButton} text=${text} what=${what} small />`}
  </div>`
}
