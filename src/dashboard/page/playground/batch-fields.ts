/** The fields of a batch: the number of jobs, the variants of the messages, the callback URL. */
import { html } from 'htm/preact'
import { useId } from 'preact/hooks'
import { TextField } from '../parts/field.ts'
import { type Draft, INPUT, variantsOf } from './draft.ts'

export interface BatchFieldsProps {
  readonly draft: Draft
  readonly onChange: (change: Partial<Draft>) => void
  /** The tier's limit for jobs in one batch. */
  readonly most: number
}

export function BatchFields({ draft, onChange, most }: BatchFieldsProps) {
  const id = useId()
  const lines = variantsOf(draft)
  const hasPlaceholder = draft.messages.some(({ content }) => content.includes(INPUT))
  const count = lines.length > 0 ? lines.length : draft.copies
  return html`<div class="stack">
    <div class="field">
      <label for=${id}>Variants, one line per job</label>
      <textarea id=${id} rows="3" value=${draft.variants} aria-describedby=${`${id}-hint`}
        onInput=${(event: Event) => onChange({ variants: (event.target as HTMLTextAreaElement).value })}></textarea>
      <p class=${lines.length > 0 && !hasPlaceholder ? 'field-error' : 'hint'} id=${`${id}-hint`}>${
        lines.length > 0 && !hasPlaceholder
          ? `Write ${INPUT} in a message; otherwise all jobs are identical.`
          : `Each line replaces ${INPUT} in the messages of one job.`
      }</p>
    </div>
    ${
      lines.length === 0 &&
      html`<${TextField} label="Copies" type="number" min="1" max=${most} value=${String(draft.copies)}
        hint="Copies that start after the first has completed are answered from the cache."
        onInput=${(value: string) => onChange({ copies: Math.min(most, Math.max(1, Math.floor(Number(value) || 1))) })} />`
    }
    <${TextField} label="Callback URL (optional)" type="url" value=${draft.callbackUrl} placeholder="https://…" spellcheck="false"
      onInput=${(callbackUrl: string) => onChange({ callbackUrl })} />
    ${count > most && html`<p class="field-error" role="status">The batch has ${count} jobs; the tier allows at most ${most}.</p>`}
  </div>`
}
