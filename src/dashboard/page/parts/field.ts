/** Form fields with labels, hints and errors. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

export interface SelectProps<T extends string> {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [value: T, words: string])[]
  readonly onChange: (value: T) => void
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
