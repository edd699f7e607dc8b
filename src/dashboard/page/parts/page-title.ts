/** The heading of a page. After navigation by a link it gets the focus, so that screen readers start reading the new page. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { hasNavigated } from '../router.ts'

export interface PageTitleProps {
  readonly title: string
  /** The title of the browser tab, if it should differ from the heading. */
  readonly tab?: string
  readonly children?: ComponentChildren
}

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
