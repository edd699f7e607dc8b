/** Explains that a resource is loading or could not be loaded. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import type { Resource } from '../resource.ts'

export interface StateOfProps {
  readonly of: Pick<Resource<unknown>, 'data' | 'error' | 'loading' | 'reload'>
  /** Names the resource in the text, for example `the jobs`. */
  readonly what: string
}

/** Renders nothing once the resource is loaded. */
export function StateOf({ of: { data, error, reload }, what }: StateOfProps) {
  if (error) {
    return html`<div class="fault" role="alert">
      <p><strong>Could not load ${what}.</strong> ${error.words}</p>
      <button type="button" class="button" onClick=${reload}>Try again</button>
    </div>`
  }
  if (data === null) return html`<p class="loading" aria-busy="true">Loading ${what}…</p>`
  return null
}

export interface EmptyProps {
  readonly title: string
  readonly children?: ComponentChildren
}

export function Empty({ title, children }: EmptyProps) {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    <div class="muted">${children}</div>
  </div>`
}
