/** What a batch needs besides the messages: how many, which variants, where to call back. */
import { html } from 'htm/preact'
import { useId } from 'preact/hooks'
import { TextField } from '../parts/field.ts'
import { type Draft, INPUT, variantsOf } from './draft.ts'

export interface BatchFieldsProps {
  readonly draft: Draft
  readonly onChange: (change: Partial<Draft>) => void
  /** Jobs in one batch that the tier may send. */
  readonly most: number
}

export function BatchFields({ draft, onChange, most }: BatchFieldsProps) {
  const id = useId()
  const lines = variantsOf(draft)
  const hasPlace = draft.messages.some(({ content }) => content.includes(INPUT))
  const count = lines.length > 0 ? lines.length : draft.copies
  return html`<div class="stack">
    <div class="field">
      <label for=${id}>Variants, a line for each job</label>
      <textarea id=${id} rows="3" value=${draft.variants} aria-describedby=${`${id}-hint`}
        onInput=${(event: Event) => onChange({ variants: (event.target as HTMLTextAreaElement).value })}></textarea>
      <p class=${lines.length > 0 && !hasPlace ? 'field-error' : 'hint'} id=${`${id}-hint`}>${
        lines.length > 0 && !hasPlace
          ? `Write ${INPUT} in a message where the line goes; now all jobs are alike.`
          : `Each line takes the place of ${INPUT} in the messages.`
      }</p>
    </div>
    ${
      lines.length === 0 &&
      html`<${TextField} label="Copies" type="number" min="1" max=${most} value=${String(draft.copies)}
        hint="Copies that come after the first has ended are answered from the cache."
        onInput=${(value: string) => onChange({ copies: Math.min(most, Math.max(1, Math.floor(Number(value) || 1))) })} />`
    }
    <${TextField} label="Callback address (optional)" type="url" value=${draft.callbackUrl} placeholder="https://…" spellcheck="false"
      onInput=${(callbackUrl: string) => onChange({ callbackUrl })} />
    ${count > most && html`<p class="field-error" role="status">${count} jobs are more than the ${most} that the tier may send in a batch.</p>`}
  </div>`
}
