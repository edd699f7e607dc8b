/** What stands where a resource is not there: yet, or because it cannot be had. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import type { Resource } from '../resource.ts'

export interface StateOfProps {
  readonly of: Pick<Resource<unknown>, 'data' | 'error' | 'loading' | 'reload'>
  /** What is read, for the words: `the jobs`. */
  readonly what: string
}

/** Nothing at all once the resource is there and could be read. */
export function StateOf({ of: { data, error, reload }, what }: StateOfProps) {
  if (error) {
    return html`<div class="fault" role="alert">
      <p><strong>Could not read ${what}.</strong> ${error.words}</p>
      <button type="button" class="button" onClick=${reload}>Try again</button>
    </div>`
  }
  if (data === null) return html`<p class="loading" aria-busy="true">Reading ${what}…</p>`
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
