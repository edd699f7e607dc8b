/** Renders labels: a state as a coloured word, and a time relative to now. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { dateAndTime, NONE, relative } from '../format.ts'
import { serverNow } from '../live.ts'

const TONES: Readonly<Record<string, string>> = {
  completed: 'good',
  delivered: 'good',
  active: 'good',
  healthy: 'good',
  live: 'good',
  failed: 'bad',
  skipped: 'bad',
  unavailable: 'bad',
  revoked: 'bad',
  suspended: 'bad',
  assigned: 'busy',
  owed: 'busy',
  'in progress': 'busy',
  in_progress: 'busy',
  validating: 'busy',
  cancelling: 'busy',
  busy: 'busy',
  expired: 'quiet',
  pending: 'quiet',
}

/** The word must be enough to understand the state, because some people cannot see the colour. */
export function Badge({ state, word = state }: { readonly state: string; readonly word?: string }) {
  return html`<span class=${`badge ${TONES[state] ?? 'quiet'}`}>${word}</span>`
}

const EVERY_MS = 10_000

/** Shows a time relative to now, such as `3 min ago`, and updates itself. The tooltip has the exact time. */
export function Time({ at }: { readonly at: number | null }) {
  const [, setTicks] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setTicks((ticks) => ticks + 1), EVERY_MS)
    return () => clearInterval(timer)
  }, [])
  if (at === null) return html`<span class="muted">${NONE}</span>`
  return html`<time datetime=${new Date(at * 1000).toISOString()} title=${dateAndTime(at)}>
    ${relative(at, serverNow())}
  </time>`
}
