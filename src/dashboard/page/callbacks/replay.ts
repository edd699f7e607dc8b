/** Replays one callback, or all that have failed. */
import { html } from 'htm/preact'
import { ConfirmedAction, useAction } from '../action.ts'
import { admin } from '../api.ts'
import type { CallbackSummary } from '../contract.ts'

export interface ReplayButtonProps {
  readonly callback: CallbackSummary & { readonly under_way?: boolean }
  readonly onReplayed: () => void
}

export function ReplayButton({ callback, onReplayed }: ReplayButtonProps) {
  const replay = useAction(async () => {
    await admin(`/callbacks/${callback.job_id}/replay`, { body: {} })
    return 'The callback is due now and will be sent within seconds.'
  }, onReplayed)
  return html`<button type="button" class="button" disabled=${replay.busy || callback.under_way} onClick=${replay.run}
    aria-label=${`Replay the callback of job ${callback.job_id}`}>Replay</button>`
}

export interface ReplayAllButtonProps {
  /** Empty for all accounts. */
  readonly account: string
  readonly onReplayed: () => void
}

export function ReplayAllButton({ account, onReplayed }: ReplayAllButtonProps) {
  const replay = async () => {
    const body = account === '' ? {} : { account }
    const { replayed } = await admin<{ replayed: number }>('/callbacks/replay-failed', { body })
    return replayed === 1 ? '1 callback is due now.' : `${replayed} callbacks are due now.`
  }
  return html`<${ConfirmedAction} label="Replay all failed…" title="Replay all failed callbacks?" action="Replay all" work=${replay} onEnd=${onReplayed}>
    <p>Every callback${account === '' ? '' : html` of the account <strong>${account}</strong>`} that failed permanently becomes due now,
    with the full number of attempts. Receivers may get some of them twice.</p>
  <//>`
}
