/** Paging through lists, newest first unless said otherwise: back to the beginning, or on. */
import { html } from 'htm/preact'

export interface PagesOfProps {
  readonly isFirst: boolean
  readonly more: boolean
  readonly onNewest: () => void
  readonly onOlder: () => void
  /** The words on the two buttons. */
  readonly back?: string
  readonly on?: string
}

export function PagesOf({ isFirst, more, onNewest, onOlder, back = 'Newest', on = 'Older' }: PagesOfProps) {
  if (isFirst && !more) return null
  return html`<nav class="pages" aria-label="Pages of the list">
    <button type="button" class="button" disabled=${isFirst} onClick=${onNewest}>${back}</button>
    <button type="button" class="button" disabled=${!more} onClick=${onOlder}>${on}</button>
  </nav>`
}

/** Searches are bounded: few that fit among many that do not are found over several pages. */
export function SearchStopped() {
  return html`<p class="hint">The search stopped at its bound before it had seen all; go on to older ones, or narrow it.</p>`
}
