/** Accounts and their keys: who may call, and with what rights. */
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

const PAGE = '100'

export function AccountsPage() {
  const [after, setAfter] = useState('')
  const accounts = useResource<AccountList>(
    `/accounts?${new URLSearchParams({ limit: PAGE, ...(after && { after }) })}`,
  )
  const keys = useKeys('')
  const [making, setMaking] = useState(false)
  const { data, error } = accounts
  const reload = () => {
    accounts.reload()
    keys.reload()
  }
  return html`<${PageTitle} title="Accounts and keys">
      <button type="button" class="button primary" onClick=${() => setMaking(true)}>Create a key…</button>
    <//>
    ${
      making &&
      html`<${NewKeyDialog} accounts=${data?.accounts ?? []} account="" onMade=${reload} onClose=${() => setMaking(false)} />`
    }
    <${Panel} title="Accounts">
      ${error || !data ? html`<${StateOf} of=${accounts} what="the accounts" />` : null}
      ${data?.accounts.length === 0 && html`<${Empty} title="There are no accounts"><p>The first key makes the first account.</p><//>`}
      ${data && data.accounts.length > 0 && html`<${AccountTable} accounts=${data.accounts} onChange=${reload} />`}
      ${
        data &&
        html`<${PagesOf} isFirst=${after === ''} more=${data.more} back="First" on="More"
        onNewest=${() => setAfter('')} onOlder=${() => setAfter(data.accounts.at(-1)?.name ?? '')} />`
      }
    <//>
    <${KeysPanel} keys=${keys} title="Keys" onChange=${reload} />`
}
