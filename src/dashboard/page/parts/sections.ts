/** Renders the parts of a page: its heading, panels with their own headings, and lists of facts. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks'
import { hasNavigated } from '../router.ts'

interface PageTitleProps {
  readonly title: string
  /** `tab` is the title of the browser tab, if it differs from the heading. */
  readonly tab?: string
  readonly children?: ComponentChildren
}

/** If the operator came from another page, the heading gets the focus, so that screen readers start to read the new page. */
export function PageTitle({ title, tab = title, children }: PageTitleProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => {
    if (hasNavigated()) heading.current?.focus({ preventScroll: true })
  }, [])
  useEffect(() => {
    document.title = `${tab} · Parley`
  }, [tab])
  return html`<header class="page-title">
    <h1 ref=${heading} tabindex="-1">${title}</h1>
    <div class="page-actions">${children}</div>
  </header>`
}

export interface PanelProps {
  readonly title: string
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

export type Fact = readonly [name: string, value: ComponentChildren]

export function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return html`<dl class="facts">
    ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`
}
