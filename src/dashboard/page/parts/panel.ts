/** A section of a page with its own heading. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

export interface PanelProps {
  readonly title: string
  /** Shown next to the heading. */
  readonly actions?: ComponentChildren
  readonly children?: ComponentChildren
  readonly wide?: boolean
}

export function Panel({ title, actions, children, wide = false }: PanelProps) {
  const id = useId()
  return html`<section class=${wide ? 'panel is-wide' : 'panel'} aria-labelledby=${id}>
    <header class="panel-head">
      <h2 id=${id}>${title}</h2>
      ${actions && html`<div class="panel-actions">${actions}</div>`}
    </header>
    ${children}
  </section>`
}
