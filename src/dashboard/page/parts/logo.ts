/** The program's logo and name. */
import { html } from 'htm/preact'

export function Logo() {
  return html`<span class="logo">
    <svg viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d="M3 4.500A1.500 1.500 0 0 1 4.500 3h7A1.500 1.500 0 0 1 13 4.500v5a1.500 1.500 0 0 1-1.500 1.500H7l-4 3Z" />
      <path class="logo-back" d="M15 7.500h.5A1.500 1.500 0 0 1 17 9v8l-3.500-2.500H9" />
    </svg>
    Parley
  </span>`
}
