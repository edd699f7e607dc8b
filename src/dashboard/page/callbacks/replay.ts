/** Replays one callback, or all that have failed. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { CallbackSummary } from '../contract.ts'
import { announce } from '../parts/announce.ts'
import { Confirm } from '../parts/dialog.ts'
import { apiError } from '../resource.ts'

export interface ReplayButtonProps {
  readonly callback: CallbackSummary & { readonly under_way?: boolean }
  readonly onReplayed: () => void
}

export function ReplayButton({ callback, onReplayed }: ReplayButtonProps) {
  const [busy, setBusy] = useState(false)
  const replay = async () => {
    setBusy(true)
    try {
      await admin(`/callbacks/${callback.job_id}/replay`, { body: {} })
      announce('The callback is due now and will be sent within seconds.')
    } catch (error) {
      announce(apiError(error).words, true)
    }
    setBusy(false)
    onReplayed()
  }
  return html`<button type="button" class="button" disabled=${busy || callback.under_way} onClick=${replay}
    aria-label=${`Replay the callback of job ${callback.job_id}`}>Replay</button>`
}

export function ReplayAllButton({
  account,
  onReplayed,
}: {
  readonly account: string
  readonly onReplayed: () => void
}) {
  const [asking, setAsking] = useState(false)
  const [busy, setBusy] = useState(false)
  const replay = async () => {
    setBusy(true)
    try {
      const body = account === '' ? {} : { account }
      const { replayed } = await admin<{ replayed: number }>('/callbacks/replay-failed', { body })
      announce(replayed === 1 ? '1 callback is due now.' : `${replayed} callbacks are due now.`)
    } catch (error) {
      announce(apiError(error).words, true)
    }
    setBusy(false)
    setAsking(false)
    onReplayed()
  }
  return html`<button type="button" class="button" onClick=${() => setAsking(true)}>Replay all failed…</button>
    ${
      asking &&
      html`<${Confirm} title="Replay all failed callbacks?" action="Replay all" busy=${busy} onConfirm=${replay}
        onClose=${() => setAsking(false)}>
        <p>Every callback${account === '' ? '' : html` of the account <strong>${account}</strong>`} that failed permanently becomes due now,
        with the full number of attempts. Receivers may get some of them twice.</p>
      <//>`
    }`
}
