/** Accounts and their keys: who may call, and with what rights. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import type { AccountList, KeyList } from '../contract.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf } from '../parts/pages-of.ts'
import { Panel } from '../parts/panel.ts'
import { Empty, StateOf } from '../parts/state-of.ts'
import { type Resource, useResource } from '../resource.ts'
import { address, usePlace } from '../router.ts'
import { AccountTable } from './account-table.ts'
import { KeyTable } from './key-table.ts'
import { NewKeyDialog } from './new-key.ts'

const PAGE = '100'

export function AccountsPage() {
  const { query } = usePlace()
  const account = query.get('account') ?? ''
  const [after, setAfter] = useState('')
  const [before, setBefore] = useState('')
  const accounts = useResource<AccountList>(`/accounts?${asked({ after })}`)
  const keys = useResource<KeyList>(`/keys?${asked({ account, before })}`)
  const [making, setMaking] = useState(false)
  const reload = () => {
    accounts.reload()
    keys.reload()
  }
  return html`<${PageTitle} title="Accounts and keys">
      <button type="button" class="button primary" onClick=${() => setMaking(true)}>Create a key…</button>
    <//>
    ${
      making &&
      html`<${NewKeyDialog} accounts=${accounts.data?.accounts ?? []} account=${account} onMade=${reload} onClose=${() => setMaking(false)} />`
    }
    <${Accounts} of=${accounts} isFirst=${after === ''} onPage=${setAfter} onChange=${reload} />
    <${Keys} key=${account} of=${keys} account=${account} isFirst=${before === ''} onPage=${setBefore} onChange=${reload} />`
}

function asked(query: Readonly<Record<string, string>>): URLSearchParams {
  return new URLSearchParams([['limit', PAGE], ...Object.entries(query).filter(([, value]) => value !== '')])
}

interface ListProps<T> {
  readonly of: Resource<T>
  readonly isFirst: boolean
  /** Where the next page begins; empty for the first. */
  readonly onPage: (from: string) => void
  readonly onChange: () => void
}

function Accounts({ of, isFirst, onPage, onChange }: ListProps<AccountList>) {
  const { data, error } = of
  const more = () => onPage(data?.accounts.at(-1)?.name ?? '')
  return html`<${Panel} title="Accounts">
    ${error || !data ? html`<${StateOf} of=${of} what="the accounts" />` : null}
    ${data?.accounts.length === 0 && html`<${Empty} title="There are no accounts"><p>The first key makes the first account.</p><//>`}
    ${data && data.accounts.length > 0 && html`<${AccountTable} accounts=${data.accounts} onChange=${onChange} />`}
    ${data && html`<${PagesOf} isFirst=${isFirst} more=${data.more} back="First" on="More" onNewest=${() => onPage('')} onOlder=${more} />`}
  <//>`
}

interface KeysProps extends ListProps<KeyList> {
  /** Whose keys; empty for those of all. */
  readonly account: string
}

function Keys({ of, account, isFirst, onPage, onChange }: KeysProps) {
  const { data, error } = of
  const older = () => onPage(data?.keys.at(-1)?.id ?? '')
  return html`<${Panel} title=${account === '' ? 'Keys' : `Keys of ${account}`} wide
    actions=${account !== '' && html`<a class="quiet-button" href=${address(['accounts'])}>Keys of all accounts</a>`}>
    ${error || !data ? html`<${StateOf} of=${of} what="the keys" />` : null}
    ${data?.keys.length === 0 && html`<${Empty} title="There are no keys" />`}
    ${data && data.keys.length > 0 && html`<${KeyTable} keys=${data.keys} onChange=${onChange} />`}
    ${data && html`<${PagesOf} isFirst=${isFirst} more=${data.more} onNewest=${() => onPage('')} onOlder=${older} />`}
  <//>`
}
