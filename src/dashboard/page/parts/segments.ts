/** A choice between a few options, each a button. */
import { html } from 'htm/preact'

export interface SegmentsProps<T extends string> {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [value: T, words: string])[]
  readonly onChange: (value: T) => void
}

export function Segments<T extends string>({ label, value, options, onChange }: SegmentsProps<T>) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(
      ([one, words]) =>
        html`<button type="button" key=${one} aria-pressed=${one === value ? 'true' : 'false'} onClick=${() => onChange(one)}>${words}</button>`,
    )}
  </div>`
}
