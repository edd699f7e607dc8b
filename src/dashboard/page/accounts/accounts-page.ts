/** The page of all accounts and keys. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import type { Account, AccountList } from '../contract.ts'
import { Badge } from '../parts/badge.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf } from '../parts/pages-of.ts'
import { Panel } from '../parts/panel.ts'
import { Time } from '../parts/time.ts'
import { Empty, StateOf, useResource } from '../resource.ts'
import { address } from '../router.ts'
import { KeysPanel, NewKeyDialog, useKeys } from './keys-panel.ts'
import { TierSelect } from './moderation.ts'
import { SecretButton } from './secret.ts'

const PAGE_SIZE = '100'

export function AccountsPage() {
  const [after, setAfter] = useState('')
  const accounts = useResource<AccountList>(
    `/accounts?${new URLSearchParams({ limit: PAGE_SIZE, ...(after && { after }) })}`,
  )
  const keys = useKeys('')
  const [creating, setCreating] = useState(false)
  const { data, error } = accounts
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
      ${error || !data ? html`<${StateOf} of=${accounts} what="the accounts" />` : null}
      ${data?.accounts.length === 0 && html`<${Empty} title="No accounts yet"><p>Create a key to create its account.</p><//>`}
      ${data && data.accounts.length > 0 && html`<${AccountTable} accounts=${data.accounts} onChange=${reload} />`}
      ${
        data &&
        html`<${PagesOf} isFirst=${after === ''} more=${data.more} newestLabel="First" olderLabel="More"
        onNewest=${() => setAfter('')} onOlder=${() => setAfter(data.accounts.at(-1)?.name ?? '')} />`
      }
    <//>
    <${KeysPanel} keys=${keys} title="Keys" onChange=${reload} />`
}

/** The most frequent actions are in the list: set the tier, show the signing secret. The page of an account has the others. */
interface AccountTableProps {
  readonly accounts: readonly Account[]
  readonly onChange: () => void
}

function AccountTable({ accounts, onChange }: AccountTableProps) {
  return html`<table class="list">
      <caption class="visually-hidden">Accounts</caption>
      <thead>
        <tr>
          <th scope="col">Account</th>
          <th scope="col" class="wide">State</th>
          <th scope="col">Tier</th>
          <th scope="col" class="number wide">Keys</th>
          <th scope="col" class="wide">Secret rotated</th>
          <th scope="col"><span class="visually-hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        ${accounts.map(
          ({ name, tier, keys, active_keys, secret_rotated_at, suspended_at }) => html`<tr key=${name}>
          <th scope="row">
            <a class="breaks" href=${address(['accounts', name])}>${name}</a>
            ${suspended_at !== null && html`<span class="narrow-only"><${Badge} state="suspended" /></span>`}
          </th>
          <td class="wide">${
            suspended_at === null
              ? html`<${Badge} state="active" />`
              : html`<${Badge} state="suspended" /> <span class="muted"><${Time} at=${suspended_at} /></span>`
          }</td>
          <td><${TierSelect} name=${name} tier=${tier} onChange=${onChange} /></td>
          <td class="number wide">${active_keys} <span class="muted">of ${keys}</span></td>
          <td class="wide">${secret_rotated_at === null ? html`<span class="muted">never</span>` : html`<${Time} at=${secret_rotated_at} />`}</td>
          <td class="actions">
            <a class="button wide" href=${address(['jobs'], { account: name })} aria-label=${`Jobs of ${name}`}>Jobs</a>
            <${SecretButton} account=${name} onChange=${onChange} />
          </td>
        </tr>`,
        )}
      </tbody>
    </table>`
}
