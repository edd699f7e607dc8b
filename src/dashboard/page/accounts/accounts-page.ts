/** The page of all accounts and keys. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import type { Account, AccountList } from '../contract.ts'
import { Badge, Time } from '../parts/labels.ts'
import { PagesOf } from '../parts/list.ts'
import { PageTitle, Panel } from '../parts/sections.ts'
import { ACTIONS, type Columns, Table } from '../parts/table.ts'
import { Empty, StateOf, useResource } from '../resource.ts'
import { address } from '../router.ts'
import { SecretButton, TierSelect } from './account-actions.ts'
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

/**
 * The list only has the most frequent actions: setting the tier, and showing the signing secret. The page of an account has all
 * of them.
 */
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
