/** Renders tables, and lists that come in pages, with the buttons for paging and a search by account. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { admin } from '../api.ts'
import { type Resource, useLoaded } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import { TextField } from './field.ts'

/** The CSS classes, such as `number wide`, apply to the heading and the cells. */
export type Columns<Row> = readonly (readonly [
  heading: ComponentChildren,
  cell: (row: Row) => ComponentChildren,
  classes?: string,
])[]

interface TableProps<Row> {
  /** Only screen readers show the caption. */
  readonly caption: string
  readonly columns: Columns<Row>
  readonly rows: readonly Row[]
  /** The key must identify a row even if rows move. Without keys, rows must not move. */
  readonly keyOf?: (row: Row) => string | number
  /** `names` is the index of the column that contains the names of the rows. */
  readonly names?: number
  readonly class?: string
}

export function Table<Row>({ caption, columns, rows, keyOf, names = 0, class: classes }: TableProps<Row>) {
  const cell = (row: Row, [, content, kind]: Columns<Row>[number], index: number) =>
    index === names
      ? html`<th scope="row" class=${kind}>${content(row)}</th>`
      : html`<td class=${kind}>${content(row)}</td>`
  return html`<table class=${classes}>
    <caption class="visually-hidden">${caption}</caption>
    <thead><tr>${columns.map(([heading, , kind]) => html`<th scope="col" class=${kind}>${heading}</th>`)}</tr></thead>
    <tbody>
      ${rows.map((row) => html`<tr key=${keyOf?.(row)}>${columns.map((column, index) => cell(row, column, index))}</tr>`)}
    </tbody>
  </table>`
}

export const ACTIONS = html`<span class="visually-hidden">Actions</span>`

export const NOTHING = html`<span class="muted">–</span>`

interface ListPage {
  readonly more: boolean
  readonly next: string | null
  /** `complete` is false if the search reached its limit of rows. Rare matches are on several pages. */
  readonly complete?: boolean
}

type Filters = Readonly<Record<string, string>>

export interface List<T> extends Resource<T> {
  readonly isFirst: boolean
  /** `pages` is null while the list is being loaded. */
  readonly pages: unknown
}

/**
 * The URL of the page contains the filters and the position.
 * @param name the name of the list's page and of its route in the admin API
 * @param queryOf returns the query of each request; if absent, the query has all filters that are not empty
 */
export function useList<T extends ListPage>(
  name: string,
  filters: Filters,
  queryOf = () => given(filters),
): List<T> {
  const before = usePlace().query.get('before') ?? ''
  const list = useLoaded<T>(address([name], { ...filters, before }), (signal) => {
    const query = new URLSearchParams({ ...queryOf(), limit: '50', ...(before && { before }) })
    return admin<T>(`/${name}?${query}`, { signal })
  })
  const { data } = list
  const isFirst = before === ''
  const show = (from: Filters) => navigate(address([name], { ...filters, ...from }))
  const pages =
    data &&
    html`${data.complete === false && html`<p class="hint">The search reached its limit. Continue with older entries, or use more filters.</p>`}
      <${PagesOf} isFirst=${isFirst} more=${data.more} onNewest=${() => show({})} onOlder=${() => show({ before: data.next ?? '' })} />`
  return { ...list, isFirst, pages }
}

export function given(filters: Filters): Filters {
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ''))
}

interface PagesOfProps {
  readonly isFirst: boolean
  readonly more: boolean
  readonly onNewest: () => void
  readonly onOlder: () => void
  readonly newestLabel?: string
  readonly olderLabel?: string
}

/** The default labels are for lists with the newest entry first. */
export function PagesOf(props: PagesOfProps) {
  const { isFirst, more, onNewest, onOlder, newestLabel = 'Newest', olderLabel = 'Older' } = props
  if (isFirst && !more) return null
  return html`<nav class="pages" aria-label="Pages of the list">
    <button type="button" class="button" disabled=${isFirst} onClick=${onNewest}>${newestLabel}</button>
    <button type="button" class="button" disabled=${!more} onClick=${onOlder}>${olderLabel}</button>
  </nav>`
}

interface AccountSearchProps {
  readonly label: string
  readonly account: string
  readonly onSearch: (account: string) => void
  readonly class: string
}

export function AccountSearch({ label, account, onSearch, class: classes }: AccountSearchProps) {
  const [typed, setTyped] = useState(account)
  // The back button restores earlier filters. A layout effect changes the field before the next key press, so no input is lost.
  useLayoutEffect(() => setTyped(account), [account])
  const onSubmit = (event: Event) => {
    event.preventDefault()
    onSearch(typed.trim())
  }
  return html`<form role="search" aria-label=${label} class=${classes} onSubmit=${onSubmit}>
    <${TextField} label="Account" value=${typed} onInput=${setTyped} placeholder="any" spellcheck=${false} autocomplete="off" />
    <button type="submit" class="button">Search</button>
  </form>`
}
