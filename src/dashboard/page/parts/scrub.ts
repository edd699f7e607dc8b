/** Asks whether what is deleted is to leave the disk at once. */
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
      <span>Have it leave the disk at once</span></label>
    <p class="hint" id=${id}>Otherwise the database writes over its place in time. On SQLite this writes the whole file anew, and nothing else
      is stored meanwhile; a Postgres is vacuumed, and writes over the blocks of the disk in its own time. Backups are not touched either way.</p>
  </div>`
}
