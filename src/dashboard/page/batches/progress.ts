/** Shows as a bar how many lines of a batch have ended. */
import { html } from 'htm/preact'
import type { BatchSummary } from '../contract.ts'

export function Progress({ batch: { lines, batch_id } }: { readonly batch: BatchSummary }) {
  const ended = lines.completed + lines.failed
  const part = lines.total === 0 ? 0 : Math.floor((100 * ended) / lines.total)
  return html`<span class="progress"><progress max="100" value=${part} aria-label=${`Lines of ${batch_id} that have ended`}></progress> ${part}%</span>`
}
