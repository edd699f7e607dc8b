/**
 * Shows the keys of one account or of all accounts, newest first, including revoked and expired ones, and the dialog that
 * creates a key. The server stores only a hash of a key, so a new key can be shown only once.
 */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { Account, Key, KeyList, NewKey, RotatedKey } from '../contract.ts'
import { day } from '../format.ts'
import { serverNow } from '../live.ts'
import { CopyButton } from '../parts/copy-and-save.ts'
import { ConfirmedAction, Dialog } from '../parts/dialog.ts'
import { Select, TextField, TierField } from '../parts/field.ts'
import { Badge, Time } from '../parts/labels.ts'
import { ACTIONS, type Columns, PagesOf, Table } from '../parts/list.ts'
import { Panel } from '../parts/sections.ts'
import { apiError, Empty, type Resource, StateOf, useResource } from '../resource.ts'

const PAGE_SIZE = '100'

export interface Keys extends Resource<KeyList> {
  readonly isFirst: boolean
  /** Shows the keys that are older than this key ID. An empty text shows the first page. */
  readonly onPage: (before: string) => void
}

/** @param account empty for all accounts */
export function useKeys(account: string): Keys {
  const [page, setPage] = useState({ account, before: '' })
  const before = page.account === account ? page.before : ''
  const query = new URLSearchParams({
    limit: PAGE_SIZE,
    ...(account && { account }),
    ...(before && { before }),
  })
  const keys = useResource<KeyList>(`/keys?${query}`)
  return { ...keys, isFirst: before === '', onPage: (from) => setPage({ account, before: from }) }
}

export interface KeysPanelProps {
  readonly keys: Keys
  readonly title: string
  readonly actions?: ComponentChildren
  readonly onChange: () => void
}

export function KeysPanel({ keys, title, actions, onChange }: KeysPanelProps) {
  const { data, error, isFirst, onPage } = keys
  return html`<${Panel} title=${title} wide actions=${actions}>
    <${StateOf} of=${keys} what="the keys" />
    ${data?.keys.length === 0 && html`<${Empty} title="No keys yet" />`}
    ${data && data.keys.length > 0 && html`<${Table} class="list" caption="Keys" columns=${columnsWith(onChange)} rows=${data.keys} keyOf=${({ id }: Key) => id} />`}
    ${(data || error) && html`<${PagesOf} isFirst=${isFirst} more=${data?.more ?? false} onNewest=${() => onPage('')} onOlder=${() => onPage(data?.keys.at(-1)?.id ?? '')} />`}
  <//>`
}

const columnsWith = (onChange: () => void): Columns<Key> => [
  ['Key ID', nameOf],
  ['Account', ({ account }) => account, 'wide'],
  ['Created', ({ created_at }) => html`<${Time} at=${created_at} />`, 'wide'],
  [
    'Last used',
    ({ last_used_at }) => (last_used_at === null ? 'never' : html`<${Time} at=${last_used_at} />`),
    'wide',
  ],
  ['State', stateOf],
  [
    ACTIONS,
    (key) =>
      isActive(key) &&
      html`<${RotateKey} shown=${key} onChange=${onChange} /> <${RevokeKey} shown=${key} onChange=${onChange} />`,
    'actions',
  ],
]

function nameOf({ id, label, account }: Key) {
  return html`<code class="breaks">${id}</code>${label !== null && html`<br /><span class="muted breaks">${label}</span>`}<span class="narrow-only muted">${account}</span>`
}

function RotateKey({ shown, onChange }: { readonly shown: Key; readonly onChange: () => void }) {
  const [newKey, setNewKey] = useState<RotatedKey | null>(null)
  const { id, account } = shown
  const rotate = async () => {
    setNewKey(await admin<RotatedKey>(`/keys/${encodeURIComponent(id)}/rotate`, { body: {} }))
    return 'The key was replaced. The old one still works for a day.'
  }
  const onClose = () => {
    setNewKey(null)
    onChange()
  }
  return html`<${ConfirmedAction} label="Rotate…" name=${`Rotate ${id}`} title="Replace this key?" action="Rotate" work=${rotate} onEnd=${() => {}}>
    <p>You get a new key of the account <strong>${account}</strong>. <code class="breaks">${id}</code> still works for a day, so that callers can change to it.</p>
  <//>
  ${newKey && html`<${ShownOnce} newKey=${newKey} onClose=${onClose} />`}`
}

function RevokeKey({ shown, onChange }: { readonly shown: Key; readonly onChange: () => void }) {
  const { id, account, label } = shown
  const revoke = async () => {
    await admin(`/keys/${encodeURIComponent(id)}/revoke`, { body: {} })
    return 'The key was revoked. Every node rejects it within a few seconds.'
  }
  return html`<${ConfirmedAction} label="Revoke…" name=${`Revoke ${id}`} title="Revoke this key?" action="Revoke" danger work=${revoke} onEnd=${onChange}>
    <p><code class="breaks">${id}</code>${label !== null && html` (${label})`} of the account <strong>${account}</strong> stops working permanently. The
    account's jobs continue, and its other keys can read them.</p>
  <//>`
}

function isActive({ revoked_at, expires_at }: Key): boolean {
  return revoked_at === null && (expires_at === null || expires_at > serverNow())
}

function stateOf(key: Key) {
  if (key.revoked_at !== null)
    return html`<${Badge} state="revoked" /> <span class="muted wide">${day(key.revoked_at)}</span>`
  if (!isActive(key))
    return html`<${Badge} state="expired" /> <span class="muted wide">${day(key.expires_at ?? 0)}</span>`
  return html`<${Badge} state="active" />${key.expires_at !== null && html` <span class="muted">until ${day(key.expires_at)}</span>`}`
}

interface NewKeyDialogProps {
  readonly accounts: readonly Account[]
  readonly account: string
  readonly onCreated: () => void
  readonly onClose: () => void
}

const LIFETIMES = [
  ['', 'never'],
  ['1', 'in a day'],
  ['30', 'in 30 days'],
  ['90', 'in 90 days'],
  ['365', 'in a year'],
] as const

/** The dialog stays open until the operator confirms, because the key is shown only once. */
export function NewKeyDialog({ accounts, account, onCreated, onClose }: NewKeyDialogProps) {
  const [created, setCreated] = useState<NewKey | null>(null)
  if (created) return html`<${ShownOnce} newKey=${created} onClose=${onClose} />`
  const onKey = (key: NewKey) => {
    setCreated(key)
    onCreated()
  }
  return html`<${Form} accounts=${accounts} account=${account} onKey=${onKey} onClose=${onClose} />`
}

interface FormProps extends Omit<NewKeyDialogProps, 'onCreated'> {
  readonly onKey: (key: NewKey) => void
}

function Form({ accounts, account, onKey, onClose }: FormProps) {
  const listId = useId()
  const [name, setName] = useState(account)
  const [tier, setTier] = useState<string>('user_free')
  const [label, setLabel] = useState('')
  const [days, setDays] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  const [busy, setBusy] = useState(false)
  // An existing account already has a tier, so the tier can be chosen only for a new account.
  const existing = accounts.find((one) => one.name === name.trim())
  const onSubmit = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    try {
      const body = {
        account: name.trim(),
        tier: existing?.tier ?? tier,
        ...(label.trim() !== '' && { label: label.trim() }),
        ...(days !== '' && { expires_days: Number(days) }),
      }
      onKey(await admin<NewKey>('/keys', { body }))
    } catch (problem) {
      setError(apiError(problem))
      setBusy(false)
    }
  }
  return html`<${Dialog} title="Create a key" onClose=${onClose}>
    <form onSubmit=${onSubmit}>
      <div class="dialog-text stack">
        <${TextField} label="Account" value=${name} onInput=${setName} list=${listId} required autofocus spellcheck=${false} autocomplete="off"
          hint="Jobs belong to the account. A new name creates an account." error=${error?.words} />
        <datalist id=${listId}>${accounts.map((one) => html`<option key=${one.name} value=${one.name} />`)}</datalist>
        ${
          existing
            ? html`<p class="hint">The account has the tier <strong>${existing.tier}</strong>.</p>`
            : html`<${TierField} label="Tier" value=${tier} onChange=${setTier} />`
        }
        <${TextField} label="Label (optional)" value=${label} onInput=${setLabel} maxlength="100" autocomplete="off" />
        <${Select} label="Expires" value=${days} options=${LIFETIMES} onChange=${setDays} />
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="button primary" disabled=${busy}>Create</button>
      </div>
    </form>
  <//>`
}

function ShownOnce({ newKey, onClose }: { readonly newKey: NewKey; readonly onClose: () => void }) {
  const { key, account, expires_at } = newKey
  const text = useRef<HTMLParagraphElement>(null)
  useLayoutEffect(() => text.current?.focus(), [])
  return html`<${Dialog} title="The new key" onClose=${onClose}>
    <div class="dialog-text">
      <p ref=${text} tabindex="-1"><strong>This key is shown only once,</strong> because only its hash is stored. It belongs to the
        account <strong>${account}</strong>${expires_at === null ? '' : ` and expires on ${day(expires_at)}`}.</p>
      <p class="secret-line"><code class="breaks" data-key>${key}</code><${CopyButton} text=${key} what="the key" /></p>
    </div>
    <div class="dialog-actions"><button type="button" class="button primary" onClick=${onClose}>I have saved it</button></div>
  <//>`
}
