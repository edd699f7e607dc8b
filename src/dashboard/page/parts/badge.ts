/** Shows a state as a coloured word. The word alone carries the meaning. */
import { html } from 'htm/preact'

const TONES: Readonly<Record<string, string>> = {
  completed: 'good',
  delivered: 'good',
  active: 'good',
  healthy: 'good',
  live: 'good',
  failed: 'bad',
  skipped: 'bad',
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

export function Badge({ state, word = state }: { readonly state: string; readonly word?: string }) {
  return html`<span class=${`badge ${TONES[state] ?? 'quiet'}`}>${word}</span>`
}
