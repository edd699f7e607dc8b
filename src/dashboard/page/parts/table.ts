/** Renders a table whose columns are declared once, for the header and the rows. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'

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
