/** The page of all accounts and keys. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import type { AccountList } from '../contract.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf } from '../parts/pages-of.ts'
import { Panel } from '../parts/panel.ts'
import { Empty, StateOf } from '../parts/state-of.ts'
import { useResource } from '../resource.ts'
import { AccountTable } from './account-table.ts'
import { KeysPanel, useKeys } from './keys-panel.ts'
import { NewKeyDialog } from './new-key.ts'

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
