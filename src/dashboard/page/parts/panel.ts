/** A section of a page with its own heading, and a list of facts as its content. */
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

/** A list of names with their values, in columns. */
export type Fact = readonly [name: string, value: ComponentChildren]

export function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return html`<dl class="facts">
    ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`
}
