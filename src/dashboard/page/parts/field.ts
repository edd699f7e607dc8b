/** Renders form fields with labels, hints and errors: for text, for choices, for a tier, and for scrubbing after a deletion. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { EffectiveSettings } from '../contract.ts'

interface ChoiceProps<T> {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [value: T, words: string])[]
  readonly onChange: (value: T) => void
}

export function Segments<T>({ label, value, options, onChange }: ChoiceProps<T>) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(
      ([one, words]) =>
        html`<button type="button" key=${one} aria-pressed=${one === value ? 'true' : 'false'} onClick=${() => onChange(one)}>${words}</button>`,
    )}
  </div>`
}

interface SelectProps<T extends string> extends ChoiceProps<T> {
  readonly hideLabel?: boolean
}

export function Select<T extends string>({ label, value, options, onChange, hideLabel }: SelectProps<T>) {
  const id = useId()
  return html`<div class="field">
    <label for=${id} class=${hideLabel ? 'visually-hidden' : ''}>${label}</label>
    <select id=${id} value=${value} onChange=${(event: Event) => onChange((event.target as HTMLSelectElement).value as T)}>
      ${options.map(([option, words]) => html`<option key=${option} value=${option} selected=${option === value}>${words}</option>`)}
    </select>
  </div>`
}

export interface TextFieldProps {
  readonly label: string
  readonly value: string
  readonly onInput: (value: string) => void
  readonly type?: string
  readonly hint?: ComponentChildren
  readonly error?: string | null
  readonly [attribute: string]: unknown
}

export function TextField({ label, value, onInput, type = 'text', hint, error, ...rest }: TextFieldProps) {
  const id = useId()
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ')
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <input id=${id} type=${type} value=${value} aria-invalid=${error ? 'true' : undefined}
      aria-describedby=${describedBy || undefined} ...${rest}
      onInput=${(event: Event) => onInput((event.target as HTMLInputElement).value)} />
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="field-error" id=${`${id}-error`} role="alert">${error}</p>`}
  </div>`
}

interface ScrubProps {
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

interface TierFieldProps {
  readonly label: string
  readonly hideLabel?: boolean
  readonly value: string
  readonly onChange: (tier: string) => void
}

/** A page may have many of these fields. The settings of a running server do not change, so the tiers are loaded only once. */
let loading: Promise<readonly string[]> | null = null

export function TierField({ value, ...field }: TierFieldProps) {
  const [tiers, setTiers] = useState<readonly string[]>([])
  useEffect(() => void configuredTiers().then(setTiers), [])
  const options = [...new Set([...tiers, value])].map((one) => [one, one])
  return html`<${Select} ...${field} value=${value} options=${options} />`
}

/** Resolves with an empty list if the tiers cannot be loaded. The next field then tries again. */
function configuredTiers(): Promise<readonly string[]> {
  loading ??= admin<EffectiveSettings>('/settings').then(
    ({ settings }) => Object.keys(settings.tiers as object),
    () => {
      loading = null
      return []
    },
  )
  return loading
}
