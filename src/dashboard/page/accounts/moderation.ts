/** Sets the tier of an account, suspends and resumes it, and cancels its jobs. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { ConfirmedAction, useAction } from '../action.ts'
import { admin } from '../api.ts'
import type { Account } from '../contract.ts'
import { counted } from '../format.ts'
import { announce } from '../parts/announce.ts'
import { TierField } from '../parts/field.ts'
import { Panel } from '../parts/panel.ts'
import { apiError } from '../resource.ts'

export interface ModerationProps {
  readonly account: Account
  readonly onChange: () => void
}

export function Moderation(props: ModerationProps) {
  const isSuspended = props.account.suspended_at !== null
  return html`<${Panel} title="Moderation">
    <div class="step-line">
      <p>${
        isSuspended
          ? 'The account is suspended: its keys can read jobs, but cannot create any.'
          : 'A suspended account can read its jobs, but cannot create any.'
      }</p>
      ${isSuspended ? html`<${Resume} ...${props} />` : html`<${Suspend} ...${props} />`}
    </div>
    <div class="step-line">
      <p>You can cancel its queued jobs and, optionally, its running jobs.</p>
      <${CancelJobs} ...${props} />
    </div>
  <//>`
}

function Suspend({ account: { name }, onChange }: ModerationProps) {
  const suspend = async () => {
    await admin(`/accounts/${encodeURIComponent(name)}/suspend`, { body: {} })
    return `${name} is suspended.`
  }
  return html`<${ConfirmedAction} label="Suspend account…" title=${`Suspend ${name}?`} action="Suspend account" danger work=${suspend} onEnd=${onChange}>
    <p>New jobs of the account are rejected with 403 within a few seconds, and the response explains why. Its jobs can still be read.</p>
    <p>Accepted jobs and their callbacks continue unless you cancel them separately. To lift the suspension, use <em>Resume account</em>.</p>
  <//>`
}

function Resume({ account: { name }, onChange }: ModerationProps) {
  const resume = useAction(async () => {
    await admin(`/accounts/${encodeURIComponent(name)}/resume`, { body: {} })
    return `${name} can create jobs again.`
  }, onChange)
  return html`<button type="button" class="button primary" disabled=${resume.busy} onClick=${resume.run}>Resume account</button>`
}

function CancelJobs({ account: { name }, onChange }: ModerationProps) {
  const [running, setRunning] = useState(false)
  const cancel = async () => {
    const path = `/accounts/${encodeURIComponent(name)}/cancel-jobs`
    const { cancelled } = await admin<{ cancelled: number }>(path, { body: { running } })
    return `${counted(cancelled, 'job')} ${cancelled === 1 ? 'was' : 'were'} cancelled.`
  }
  return html`<${ConfirmedAction} label="Cancel jobs…" title=${`Cancel jobs of ${name}?`} action="Cancel jobs" back="Keep jobs" danger work=${cancel} onEnd=${onChange}>
    <p>The jobs fail permanently with the code <code>cancelled</code>. Waiting requests are answered, and callbacks are sent. Jobs that are created later are not affected; to prevent new jobs, suspend the account first.</p>
    <label class="check"><input type="checkbox" checked=${running}
      onChange=${(event: Event) => setRunning((event.target as HTMLInputElement).checked)} />
      <span>Also cancel running jobs: their calls to models are aborted</span></label>
  <//>`
}

interface TierSelectProps {
  readonly name: string
  readonly tier: string
  readonly onChange: () => void
}

export function TierSelect({ name, tier, onChange }: TierSelectProps) {
  const setTier = async (to: string) => {
    try {
      await admin(`/accounts/${encodeURIComponent(name)}/tier`, { body: { tier: to } })
      announce(`The account ${name} now has the tier ${to}.`)
    } catch (error) {
      announce(apiError(error).words, true)
    }
    onChange()
  }
  return html`<${TierField} label=${`Tier of ${name}`} hideLabel value=${tier}
    onChange=${(to: string) => void setTier(to)} />`
}
