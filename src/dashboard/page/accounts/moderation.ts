/** Stopping an account: no new jobs, and the end of those it has. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { useAction } from '../action.ts'
import { admin } from '../api.ts'
import type { Account } from '../contract.ts'
import { Confirm } from '../parts/dialog.ts'
import { Panel } from '../parts/panel.ts'

export interface SteppingInProps {
  readonly account: Account
  readonly onChange: () => void
}

export function SteppingIn(props: SteppingInProps) {
  const isSuspended = props.account.suspended_at !== null
  return html`<${Panel} title="Stepping in">
    <div class="step-line">
      <p>${
        isSuspended
          ? 'It is suspended: its keys read jobs, and create none.'
          : 'A suspended account reads its jobs, and creates none.'
      }</p>
      ${isSuspended ? html`<${Resume} ...${props} />` : html`<${Suspend} ...${props} />`}
    </div>
    <div class="step-line">
      <p>Its jobs that wait, and those that run if you like, can be ended now.</p>
      <${CancelJobs} ...${props} />
    </div>
  <//>`
}

function Suspend({ account: { name }, onChange }: SteppingInProps) {
  const [asking, setAsking] = useState(false)
  const suspend = useAction(
    async () => {
      await admin(`/accounts/${encodeURIComponent(name)}/suspend`, { body: {} })
      return `${name} is suspended.`
    },
    () => {
      setAsking(false)
      onChange()
    },
  )
  return html`<button type="button" class="button" onClick=${() => setAsking(true)}>Suspend…</button>
    ${
      asking &&
      html`<${Confirm} title=${`Suspend ${name}?`} action="Suspend" danger busy=${suspend.busy} onConfirm=${suspend.run} onClose=${() => setAsking(false)}>
        <p>Within seconds every new job of the account is refused with 403, and its callers are told why. They can still read their jobs.</p>
        <p>Jobs that were accepted go on, and so do callbacks; cancelling them is a step of its own. <em>Resume</em> lets the account in again.</p>
      <//>`
    }`
}

function Resume({ account: { name }, onChange }: SteppingInProps) {
  const resume = useAction(async () => {
    await admin(`/accounts/${encodeURIComponent(name)}/resume`, { body: {} })
    return `${name} may create jobs again.`
  }, onChange)
  return html`<button type="button" class="button primary" disabled=${resume.busy} onClick=${resume.run}>Resume</button>`
}

function CancelJobs({ account: { name }, onChange }: SteppingInProps) {
  const [asking, setAsking] = useState(false)
  const [running, setRunning] = useState(false)
  const cancel = useAction(
    async () => {
      const path = `/accounts/${encodeURIComponent(name)}/cancel-jobs`
      const { cancelled } = await admin<{ cancelled: number }>(path, { body: { running } })
      return cancelled === 1 ? '1 job is cancelled.' : `${cancelled} jobs are cancelled.`
    },
    () => {
      setAsking(false)
      onChange()
    },
  )
  return html`<button type="button" class="button" onClick=${() => setAsking(true)}>Cancel jobs…</button>
    ${
      asking &&
      html`<${Confirm} title=${`Cancel jobs of ${name}?`} action="Cancel the jobs" back="Leave them" danger busy=${cancel.busy} onConfirm=${cancel.run}
        onClose=${() => setAsking(false)}>
        <p>They end for good, as <strong>failed</strong> with <code>cancelled</code>; whoever waits is answered, and callbacks are sent.
        Jobs that come in from now on are not touched: suspend the account first, if there are to be none.</p>
        <label class="check"><input type="checkbox" checked=${running}
          onChange=${(event: Event) => setRunning((event.target as HTMLInputElement).checked)} />
          <span>Those that run, too: their calls to models are cut off</span></label>
      <//>`
    }`
}
