/** The buttons that page through a list: back to the first page, or to the next one. Lists are newest first by default. */
import { html } from 'htm/preact'

export interface PagesOfProps {
  readonly isFirst: boolean
  readonly more: boolean
  readonly onNewest: () => void
  readonly onOlder: () => void
  readonly newestLabel?: string
  readonly olderLabel?: string
}

export function PagesOf(props: PagesOfProps) {
  const { isFirst, more, onNewest, onOlder, newestLabel = 'Newest', olderLabel = 'Older' } = props
  if (isFirst && !more) return null
  return html`<nav class="pages" aria-label="Pages of the list">
    <button type="button" class="button" disabled=${isFirst} onClick=${onNewest}>${newestLabel}</button>
    <button type="button" class="button" disabled=${!more} onClick=${onOlder}>${olderLabel}</button>
  </nav>`
}

/** Each search examines a limited number of rows, so rare matches are spread over several pages. */
export function SearchStopped() {
  return html`<p class="hint">The search reached its limit. Continue with older entries, or use more filters.</p>`
}
