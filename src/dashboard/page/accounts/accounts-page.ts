/**
 * Renders the pages of all accounts with their keys, and of one account with its state, caps, usage, webhook, keys and admin
 * actions.
 */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { Account, AccountList, HeldBack } from '../contract.ts'
import { dateAndTime, exact } from '../format.ts'
import { useLive } from '../live.ts'
import { announce } from '../parts/announce.ts'
import { Dialog } from '../parts/dialog.ts'
import { TextField } from '../parts/field.ts'
import { Badge, Icon, Time } from '../parts/labels.ts'
import { ACTIONS, type Columns, PagesOf, Table } from '../parts/list.ts'
import { type Fact, Facts, PageTitle, Panel } from '../parts/sections.ts'
import { apiError, Empty, StateOf, useResource } from '../resource.ts'
import { address } from '../router.ts'
import { DeleteAccount, Moderation, SecretButton, TierSelect } from './account-actions.ts'
import { CapsPanel } from './caps.ts'
import { KeysPanel, NewKeyDialog, useKeys } from './keys-panel.ts'

const PAGE_SIZE = '100'

export function AccountsPage() {
  const [after, setAfter] = useState('')
  const accounts = useResource<AccountList>(
    `/accounts?${new URLSearchParams({ limit: PAGE_SIZE, ...(after && { after }) })}`,
  )
  const keys = useKeys('')
  const [creating, setCreating] = useState(false)
  const { data } = accounts
  const reload = () => {
    accounts.reload()
    keys.reload()
  }
  return html`<${PageTitle} title="Accounts and keys">
      <button type="button" class="button primary" onClick=${() => setCreating(true)}>Create a key…</button>
    <//>
    ${
      creating &&
      html`<${NewKeyDialog} accounts=${data?.accounts ?? []} account="" onCreated=${reload} onClose=${() => setCreating(false)} />`
    }
    <${Panel} title="Accounts">
      <${StateOf} of=${accounts} what="the accounts" />
      ${data?.accounts.length === 0 && html`<${Empty} title="No accounts yet"><p>Create a key to create its account.</p><//>`}
      ${data && data.accounts.length > 0 && html`<${Table} class="list" caption="Accounts" columns=${columnsWith(reload)} rows=${data.accounts} keyOf=${({ name }: Account) => name} />`}
      ${
        data &&
        html`<${PagesOf} isFirst=${after === ''} more=${data.more} newestLabel="First" olderLabel="More"
        onNewest=${() => setAfter('')} onOlder=${() => setAfter(data.accounts.at(-1)?.name ?? '')} />`
      }
    <//>
    <${KeysPanel} keys=${keys} title="Keys" onChange=${reload} />`
}

/** The list has only the most frequent actions. The page of an account has all of them. */
const columnsWith = (onChange: () => void): Columns<Account> => [
  [
    'Account',
    ({ name, suspended_at }) => html`<a class="breaks" href=${address(['accounts', name])}>${name}</a>
      ${suspended_at !== null && html`<span class="narrow-only"><${Badge} state="suspended" /></span>`}`,
  ],
  [
    'State',
    ({ suspended_at }) =>
      suspended_at === null
        ? html`<${Badge} state="active" />`
        : html`<${Badge} state="suspended" /> <span class="muted"><${Time} at=${suspended_at} /></span>`,
    'wide',
  ],
  ['Tier', ({ name, tier }) => html`<${TierSelect} name=${name} tier=${tier} onChange=${onChange} />`],
  [
    'Keys',
    ({ keys, active_keys }) => html`${active_keys} <span class="muted">of ${keys}</span>`,
    'number wide',
  ],
  [
    'Secret rotated',
    ({ secret_rotated_at: at }) =>
      at === null ? html`<span class="muted">never</span>` : html`<${Time} at=${at} />`,
    'wide',
  ],
  [
    ACTIONS,
    ({
      name,
    }) => html`<a class="button wide" href=${address(['jobs'], { account: name })} aria-label=${`Jobs of ${name}`}>Jobs</a>
      <${SecretButton} account=${name} onChange=${onChange} />`,
    'actions',
  ],
]

export function AccountPage({ name }: { readonly name: string }) {
  const resource = useResource<Account>(`/accounts/${encodeURIComponent(name)}`)
  // If the account was deleted after it was loaded, its data must disappear from the page.
  const isGone = resource.error?.status === 404
  const account = isGone ? null : resource.data
  return html`<p class="back-link"><a href=${address(['accounts'])}><${Icon} name="back" />Accounts</a></p>
    <${PageTitle} title=${name} tab=${`Account ${name}`}>
      ${account && html`<${Badge} state=${account.suspended_at === null ? 'active' : 'suspended'} />`}
      <a class="button" href=${address(['jobs'], { account: name })}>Jobs</a>
      <a class="button" href=${address(['usage'], { account: name })}>Usage</a>
      <a class="button" href=${address(['audit'], { account: name })}>Audit log</a>
    <//>
    ${
      isGone
        ? html`<${Empty} title="Account not found"><p>It never existed, or it was deleted. Deletions are recorded in the audit log.
          <a href=${address(['accounts'])}>All accounts</a></p><//>`
        : html`<${StateOf} of=${resource} what="the account" />`
    }
    ${account && html`<${Details} account=${account} onChange=${resource.reload} />`}`
}

interface DetailsProps {
  readonly account: Account
  readonly onChange: () => void
}

function Details({ account, onChange }: DetailsProps) {
  const { overview } = useLive()
  const heldBack = (overview?.held_back ?? []).filter((one) => one.account === account.name)
  return html`<${Facts} facts=${[...factsOf(account, onChange), ...heldBackFacts(heldBack)]} />
    <div class="columns halves">
      <${Moderation} account=${account} onChange=${onChange} />
      <${CapsPanel} account=${account} onChange=${onChange} />
    </div>
    <${AccountKeys} account=${account} onChange=${onChange} />
    <${Panel} title="Delete the account" wide>
      <div class="step-line">
        <p>Permanently deletes its jobs with their contents, its keys and its secrets.</p>
        <${DeleteAccount} name=${account.name} onFailed=${onChange} />
      </div>
    <//>`
}

function factsOf(account: Account, onChange: () => void): Fact[] {
  const { name, tier, keys, active_keys, open_jobs, stored_bytes, secret_rotated_at, suspended_at } = account
  const state =
    suspended_at === null
      ? 'active'
      : html`suspended since <time datetime=${new Date(suspended_at * 1000).toISOString()}>${dateAndTime(suspended_at)}</time>`
  return [
    ['State', state],
    ['Tier', html`<${TierSelect} name=${name} tier=${tier} onChange=${onChange} />`],
    ['Open jobs', exact(open_jobs)],
    ['Stored', `${exact(stored_bytes)} bytes`],
    ['Keys', html`${active_keys} active <span class="muted">of ${keys}</span>`],
    [
      'Signing secret',
      html`${secret_rotated_at === null ? 'never rotated' : html`rotated <${Time} at=${secret_rotated_at} />`}
        ${' '}<${SecretButton} account=${name} onChange=${onChange} />`,
    ],
    [
      'Webhook',
      html`${account.webhook_url === null ? 'none' : html`<span class="breaks">${account.webhook_url}</span>`}
        ${' '}<${WebhookButton} account=${account} onChange=${onChange} />`,
    ],
  ]
}

function heldBackFacts(heldBack: readonly HeldBack[]): Fact[] {
  if (heldBack.length === 0) return []
  return [
    [
      'Held back on this node',
      heldBack.map(
        (one) =>
          html`<span key=${one.reason}><${Badge} state="busy" word=${one.reason} /> ${reasonText(one)} </span>`,
      ),
    ],
  ]
}

interface AccountKeysProps {
  readonly account: Account
  readonly onChange: () => void
}

function AccountKeys({ account, onChange }: AccountKeysProps) {
  const keys = useKeys(account.name)
  const [creating, setCreating] = useState(false)
  const reload = () => {
    keys.reload()
    onChange()
  }
  const create = html`<button type="button" class="button" onClick=${() => setCreating(true)}>Create a key…</button>`
  return html`<${KeysPanel} keys=${keys} title=${`Keys of ${account.name}`} actions=${create} onChange=${reload} />
    ${
      creating &&
      html`<${NewKeyDialog} accounts=${[account]} account=${account.name} onCreated=${reload} onClose=${() => setCreating(false)} />`
    }`
}

interface WebhookButtonProps {
  readonly account: Account
  readonly onChange: () => void
}

function WebhookButton({ account, onChange }: WebhookButtonProps) {
  const [isShown, setIsShown] = useState(false)
  return html`<button type="button" class="button" onClick=${() => setIsShown(true)}>Change webhook…</button>
    ${isShown && html`<${WebhookDialog} account=${account} onChange=${onChange} onClose=${() => setIsShown(false)} />`}`
}

interface WebhookDialogProps extends WebhookButtonProps {
  readonly onClose: () => void
}

function WebhookDialog({ account: { name, webhook_url }, onChange, onClose }: WebhookDialogProps) {
  const [url, setUrl] = useState(webhook_url ?? '')
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const save = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    try {
      const body = { url: url.trim() === '' ? null : url.trim() }
      await admin(`/accounts/${encodeURIComponent(name)}/webhook`, { body })
      announce(body.url === null ? `${name} has no webhook.` : `The webhook of ${name} is set.`)
      onChange()
      onClose()
    } catch (problem) {
      setError(apiError(problem).words)
      setBusy(false)
    }
  }
  return html`<${Dialog} title=${`Webhook of ${name}`} onClose=${onClose}>
    <form onSubmit=${save} novalidate>
      <div class="dialog-text">
        <p>Events report how background responses and batches ended. They are signed, retried and replayed like callbacks.</p>
        <${TextField} label="URL" type="url" value=${url} onInput=${setUrl} error=${error} autocomplete="off"
          hint="Leave it empty to send no events. Existing responses and batches keep their address." />
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick=${onClose}>Close</button>
        <button type="submit" class="button primary" disabled=${busy}>Set webhook</button>
      </div>
    </form>
  <//>`
}

const REASONS: Readonly<Record<HeldBack['reason'], string>> = {
  slots: 'The account uses its full share of the slots; the rest is reserved for accounts without a slot.',
  memory: 'Its next large job waits for memory.',
}

/** The reason applies only to the node that served the page, because each node decides for itself. */
export function reasonText({ reason }: HeldBack): string {
  return REASONS[reason]
}
