/** The events of a job in order, each with the time since the previous one. */
import { html } from 'htm/preact'
import type { TimelineEntry } from '../contract.ts'
import { dateAndTime, duration, timeOfDayMs } from '../format.ts'

export function Timeline({ entries }: { readonly entries: readonly TimelineEntry[] }) {
  return html`<ol class="timeline">
    ${entries.map(
      (entry, index) => html`<li key=${index} class=${toneOf(entry)}>
      <span class="timeline-what">${WORDS[entry.what]}</span>
      ${entry.detail && html`<span class="timeline-detail">${entry.detail}</span>`}
      <span class="timeline-at">${whenOf(entry, entries[index - 1]?.at ?? null)}</span>
    </li>`,
    )}
  </ol>`
}

const WORDS = {
  accepted: 'Accepted',
  assigned: 'Assigned to a node',
  call: 'Model called',
  settled: 'Settled',
  callback: 'Callback attempt',
} as const

function whenOf({ at }: TimelineEntry, previous: number | null) {
  const moment = html`<time datetime=${new Date(at * 1000).toISOString()} title=${dateAndTime(at)}>${timeOfDayMs(at)}</time>`
  if (previous === null) return moment
  return html`${moment}<span>+${duration((at - previous) * 1000)}</span>`
}

/** Derived from the text of the detail, for example `failed: model_error` or `attempt 2: 503, 12 ms`. */
function toneOf({ what, detail }: TimelineEntry): string {
  const words = detail ?? ''
  if (what === 'settled') return words.startsWith('completed') ? 'is-good' : 'is-bad'
  if (what === 'call') return words.includes(': answer,') ? 'is-good' : 'is-bad'
  if (what === 'callback') return /^attempt \d+: 2\d\d,/.test(words) ? 'is-good' : 'is-bad'
  return ''
}
