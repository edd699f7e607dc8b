/** A checkbox that asks whether to scrub the database after a deletion. */
import { html } from 'htm/preact'
import { useId } from 'preact/hooks'

export interface ScrubProps {
  readonly value: boolean
  readonly onChange: (value: boolean) => void
  readonly disabled?: boolean
}

export function Scrub({ value, onChange, disabled = false }: ScrubProps) {
  const id = useId()
  return html`<div class="field">
    <label class="check"><input type="checkbox" checked=${value} disabled=${disabled} aria-describedby=${id}
      onChange=${(event: Event) => onChange((event.target as HTMLInputElement).checked)} />
      <span>Scrub the data from the disk now</span></label>
    <p class="hint" id=${id}>Otherwise the database overwrites the data over time. On SQLite, scrubbing rewrites the whole file, and other
      writes wait meanwhile. On Postgres it vacuums the tables, and Postgres overwrites the disk blocks over time. Backups are not
      changed in either case.</p>
  </div>`
}
