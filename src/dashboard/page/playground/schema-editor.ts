/** The editor of the response schema, which is checked while it is typed. */
import { html } from 'htm/preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { pretty } from '../format.ts'
import { checkSchema } from './schema-check.ts'

export interface SchemaEditorProps {
  readonly schema: string
  readonly onChange: (schema: string) => void
}

/** Screen readers announce the result after a pause in typing, not after each key. */
const TYPING_PAUSE_MS = 500

export function SchemaEditor({ schema, onChange }: SchemaEditorProps) {
  const id = useId()
  const verdict = checkSchema(schema)
  const [announced, setAnnounced] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => setAnnounced(verdict.words), TYPING_PAUSE_MS)
    return () => clearTimeout(timer)
  }, [verdict.words])
  return html`<div class="field">
    <div class="label-line">
      <label for=${id}>Schema</label>
      <button type="button" class="quiet-button" disabled=${schema.trim() === ''} onClick=${() => onChange(pretty(schema))}>Format</button>
    </div>
    <textarea id=${id} class="mono code-area" rows="10" spellcheck="false" autocapitalize="off" value=${schema}
      aria-invalid=${verdict.kind === 'fault' ? 'true' : undefined} aria-describedby=${`${id}-verdict`}
      placeholder='{ "type": "object", … }' onInput=${(event: Event) => onChange((event.target as HTMLTextAreaElement).value)}></textarea>
    <p id=${`${id}-verdict`} class=${`verdict is-${verdict.kind}`}>${verdict.words}</p>
    <p class="visually-hidden" role="status">${announced}</p>
  </div>`
}
