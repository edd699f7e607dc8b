/** Edits the messages of a conversation and the fields of a batch. */
import { html } from 'htm/preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { ROLES, type Role } from '../contract.ts'
import { announce } from '../parts/announce.ts'
import { TextField } from '../parts/field.ts'
import { Icon } from '../parts/labels.ts'
import { type Draft, type DraftMessage, INPUT, message, variantsOf } from './draft.ts'

export interface MessageEditorProps {
  readonly messages: readonly DraftMessage[]
  readonly onChange: (messages: readonly DraftMessage[]) => void
}

export function MessageEditor({ messages, onChange }: MessageEditorProps) {
  const list = useRef<HTMLOListElement>(null)
  const focusOn = useRef<number | null>(null)
  useLayoutEffect(() => {
    if (focusOn.current === null) return
    list.current?.querySelector<HTMLElement>(`[data-message="${focusOn.current}"] textarea`)?.focus()
    focusOn.current = null
  })
  const replace = (index: number, change: Partial<DraftMessage>) =>
    onChange(messages.map((one, at) => (at === index ? { ...one, ...change } : one)))
  const move = (from: number, to: number) => {
    const moved = [...messages]
    moved.splice(to, 0, ...moved.splice(from, 1))
    onChange(moved)
    announce(`Message ${from + 1} is now message ${to + 1}.`)
  }
  const remove = (index: number) => {
    focusOn.current = (messages[index + 1] ?? messages[index - 1])?.id ?? null
    onChange(messages.filter((_, at) => at !== index))
  }
  const add = () => {
    const added = message(messages.at(-1)?.role === 'user' ? 'assistant' : 'user', '')
    focusOn.current = added.id
    onChange([...messages, added])
  }
  const hasUser = messages.some(({ role }) => role === 'user')
  return html`<ol class="messages" ref=${list} aria-label="Messages">
      ${messages.map(
        (
          one,
          index,
        ) => html`<${Row} key=${one.id} of=${one} number=${index + 1} isLast=${index === messages.length - 1}
        onChange=${(change: Partial<DraftMessage>) => replace(index, change)} onMove=${(by: number) => move(index, index + by)}
        onRemove=${messages.length > 1 ? () => remove(index) : null} />`,
      )}
    </ol>
    ${!hasUser && html`<p class="field-error" role="status">At least one message must have the role user.</p>`}
    <button type="button" class="button" onClick=${add}><${Icon} name="add" />Add message</button>`
}

interface RowProps {
  readonly of: DraftMessage
  /** Message numbers start at 1. */
  readonly number: number
  readonly isLast: boolean
  readonly onChange: (change: Partial<DraftMessage>) => void
  readonly onMove: (by: number) => void
  /** `onRemove` is null if the conversation has only this message. */
  readonly onRemove: (() => void) | null
}

/** A button that becomes `disabled` when it is pressed loses the focus, so these buttons use `aria-disabled`. */
function Row({ of: { id, role, content }, number, isLast, onChange, onMove, onRemove }: RowProps) {
  const field = useId()
  return html`<li class=${`message said-by-${role}`} data-message=${id}>
    <div class="message-head">
      <select aria-label=${`Role of message ${number}`} value=${role}
        onChange=${(event: Event) => onChange({ role: (event.target as HTMLSelectElement).value as Role })}>
        ${ROLES.map((one) => html`<option key=${one} value=${one} selected=${one === role}>${one}</option>`)}
      </select>
      <div class="message-tools">
        <button type="button" class="icon-button" aria-disabled=${number === 1 ? 'true' : undefined} onClick=${number === 1 ? undefined : () => onMove(-1)}
          aria-label=${`Move message ${number} up`} title="Move up"><${Icon} name="up" /></button>
        <button type="button" class="icon-button" aria-disabled=${isLast ? 'true' : undefined} onClick=${isLast ? undefined : () => onMove(1)}
          aria-label=${`Move message ${number} down`} title="Move down"><${Icon} name="down" /></button>
        <button type="button" class="icon-button" disabled=${onRemove === null} onClick=${onRemove}
          aria-label=${`Remove message ${number}`} title="Remove"><${Icon} name="remove" /></button>
      </div>
    </div>
    <label class="visually-hidden" for=${field}>Text of message ${number}</label>
    <textarea id=${field} rows="2" value=${content}
      onInput=${(event: Event) => onChange({ content: (event.target as HTMLTextAreaElement).value })}></textarea>
  </li>`
}

interface BatchFieldsProps {
  readonly draft: Draft
  readonly onChange: (change: Partial<Draft>) => void
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
