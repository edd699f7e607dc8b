/** The keys of one account or of all accounts, newest first. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { KeyList } from '../contract.ts'
import { PagesOf } from '../parts/pages-of.ts'
import { Panel } from '../parts/panel.ts'
import { Empty, StateOf } from '../parts/state-of.ts'
import { type Resource, useResource } from '../resource.ts'
import { KeyTable } from './key-table.ts'

const PAGE_SIZE = '100'

export interface Keys extends Resource<KeyList> {
  readonly isFirst: boolean
  /** Shows the page after this key; empty for the first page. */
  readonly onPage: (before: string) => void
}

/** @param account empty for all */
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
    ${error || !data ? html`<${StateOf} of=${keys} what="the keys" />` : null}
    ${data?.keys.length === 0 && html`<${Empty} title="No keys yet" />`}
    ${data && data.keys.length > 0 && html`<${KeyTable} keys=${data.keys} onChange=${onChange} />`}
    ${data && html`<${PagesOf} isFirst=${isFirst} more=${data.more} onNewest=${() => onPage('')} onOlder=${() => onPage(data.keys.at(-1)?.id ?? '')} />`}
  <//>`
}
