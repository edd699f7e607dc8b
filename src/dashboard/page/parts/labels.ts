/** Renders icons, the logo, a state as a coloured word, and a time relative to now. */
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

const PATHS = {
  overview: 'M2 13V8m4 5V3m4 10V6m4 7v-3',
  jobs: 'M3 4h10M3 8h10M3 12h6',
  batches: 'M2 5l6-3 6 3-6 3ZM2 8l6 3 6-3M2 11l6 3 6-3',
  callbacks: 'M2 8h9M8 4.5 11.5 8 8 11.5M14 3v10',
  accounts: 'M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Zm-5 5.5c.6-2.4 2.6-3.5 5-3.5s4.400 1.100 5 3.5',
  usage: 'M2.500 13.500h11M4.500 11V8m3.500 3V3.500M11.500 11V6',
  audit: 'M8 13.500a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11ZM8 5v3l2 1.500',
  settings: 'M2 5h7m3 0h2M2 11h2m3 0h7M10.500 3.500v3M5.500 9.500v3',
  playground: 'M3 3l3.500 3L3 9M8 12h5',
  copy: 'M5.500 5.500v-2a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-2M3.500 5.500h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1Z',
  up: 'M8 13V3.500M4 7.500l4-4 4 4',
  down: 'M8 3v9.500M4 8.500l4 4 4-4',
  remove: 'M4 4l8 8M12 4l-8 8',
  add: 'M8 3v10M3 8h10',
  sun: 'M8 10.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5ZM8 1.500v1.500M8 13v1.500M1.500 8H3M13 8h1.500M3.400 3.400l1.100 1.100M11.500 11.500l1.100 1.100M12.600 3.400l-1.100 1.100M4.500 11.500l-1.100 1.100',
  moon: 'M13 9.500A5.500 5.500 0 0 1 6.500 3a5.500 5.500 0 1 0 6.500 6.500Z',
  leave: 'M6 2.500H3.500v11H6M7 8h6.500M11 5.500 13.500 8 11 10.500',
  document: 'M4 2.500h5.500l3 3v8H4Zm5.500 0v3h3M6 9h4.500M6 11.500h3',
  back: 'M9.500 3.500 5 8l4.500 4.500',
} as const

export type IconName = keyof typeof PATHS

/** Screen readers ignore icons, because each has a label next to it. */
export function Icon({ name }: { readonly name: IconName }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`
}

export function Logo() {
  return html`<span class="logo">
    <svg viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d="M3 4.500A1.500 1.500 0 0 1 4.500 3h7A1.500 1.500 0 0 1 13 4.500v5a1.500 1.500 0 0 1-1.500 1.500H7l-4 3Z" />
      <path class="logo-back" d="M15 7.500h.5A1.500 1.500 0 0 1 17 9v8l-3.500-2.500H9" />
    </svg>
    Parley
  </span>`
}
