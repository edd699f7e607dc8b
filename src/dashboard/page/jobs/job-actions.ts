/** Offers the admin actions on jobs: cancel a job, rerun or delete a finished job, and rerun all jobs that a search finds. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { JobDetails } from '../contract.ts'
import { count } from '../format.ts'
import { ConfirmedAction } from '../parts/dialog.ts'
import { Scrub } from '../parts/field.ts'
import { address, navigate } from '../router.ts'

export interface JobActionProps {
  readonly job: JobDetails
  readonly onChange: () => void
}

export function CancelJob({ job, onChange }: JobActionProps) {
  const cancel = async () => {
    await admin(`/jobs/${job.job_id}/cancel`, { body: {} })
    return 'The job was cancelled.'
  }
  return html`<${ConfirmedAction} label="Cancel job…" title="Cancel this job?" action="Cancel job" back="Keep job" danger work=${cancel} onEnd=${onChange}>
    <p>The job fails permanently with the code <code>cancelled</code>. A call to a model that is in progress is aborted within a
    second, and its answer is lost.</p>
    <p>A waiting request is answered, and the job's callback, if it has one, is sent. The job counts in this month's usage.</p>
  <//>`
}

export function DeleteJob({ job, onChange }: JobActionProps) {
  const [scrub, setScrub] = useState(true)
  const remove = async () => {
    await admin(`/jobs/${job.job_id}?scrub=${scrub}`, { method: 'DELETE' })
    return 'The job was deleted.'
  }
  const onEnd = (isDone: boolean) => (isDone ? navigate(address(['jobs'])) : onChange())
  return html`<${ConfirmedAction} label="Delete job…" title="Delete this job?" action="Delete job" danger work=${remove} onEnd=${onEnd}>
    <p>This permanently deletes its conversation, its answer (including the cached response), its receipt, and its callback with all
    attempts. Reading the job then returns 404.${job.callback?.state === 'owed' ? ' Its callback has not been delivered and will not be sent.' : ''}</p>
    <p>The job stays counted in the account's usage, and the audit log keeps its ID.</p>
    <${Scrub} value=${scrub} onChange=${setScrub} />
  <//>`
}

export function RerunJob({ job, onChange }: JobActionProps) {
  const [withCallback, setWithCallback] = useState(false)
  const again = job.reruns.length > 0
  let made: string | null = null
  const rerun = async () => {
    const body = { with_callback: withCallback, again }
    made = (await admin<{ readonly job_id: string | null }>(`/jobs/${job.job_id}/rerun`, { body })).job_id
    return made === null ? 'The rerun was requested. A server creates the job soon.' : 'The job was rerun.'
  }
  const onEnd = () => (made === null ? onChange() : navigate(address(['jobs', made])))
  return html`<${ConfirmedAction} label="Rerun job…" title="Rerun this job?" action="Rerun job" work=${rerun} onEnd=${onEnd}>
    ${again && html`<p>It was rerun before. This creates one more job.</p>`}
    <p>A new job with the same request is created. It calls the model even if there is a cached response, and the account pays for
    it as for any job.</p>
    ${job.callback && html`<${WithCallback} value=${withCallback} onChange=${setWithCallback} />`}
  <//>`
}

interface RerunJobsProps {
  /** An empty `account` or `model` matches all jobs. `status` must be `failed` or `completed`. */
  readonly filters: { readonly account: string; readonly model: string; readonly status: string }
  /** The time range starts at this Unix time. Null means any time. */
  readonly from: number | null
  readonly onChange: () => void
}

interface RerunResult {
  readonly jobs: readonly unknown[]
  readonly skipped: number
  readonly refused: readonly { readonly reason: string; readonly jobs: number }[]
  readonly waiting: number
}

export function RerunJobs({ filters, from, onChange }: RerunJobsProps) {
  const [withCallback, setWithCallback] = useState(false)
  const given = Object.entries(filters).filter(([, value]) => value !== '')
  const rerun = async () => {
    const body = { ...Object.fromEntries(given), ...(from !== null && { from }), with_callback: withCallback }
    const { jobs, skipped, refused, waiting } = await admin<RerunResult>('/jobs/rerun', { body })
    const parts = [
      `${count(jobs.length)} ${jobs.length === 1 ? 'job was' : 'jobs were'} rerun`,
      ...(skipped > 0 ? [`${count(skipped)} skipped`] : []),
      ...(waiting > 0 ? [`${count(waiting)} requested`] : []),
      ...refused.map((one) => `${count(one.jobs)} not: ${one.reason}`),
    ]
    return parts.join('; ')
  }
  return html`<${ConfirmedAction} label="Rerun these jobs…" title="Rerun these jobs?" action="Rerun jobs" work=${rerun} onEnd=${onChange}>
    <p>A new job with the same request is created for each job that matches the filters: up to 1,000, the newest first. Jobs that
    were rerun before are skipped, and so are reruns.</p>
    <p>The accounts pay for the new jobs as for any others.</p>
    <${WithCallback} value=${withCallback} onChange=${setWithCallback} />
  <//>`
}

interface WithCallbackProps {
  readonly value: boolean
  readonly onChange: (value: boolean) => void
}

function WithCallback({ value, onChange }: WithCallbackProps) {
  return html`<label class="check"><input type="checkbox" checked=${value}
    onChange=${(event: Event) => onChange((event.target as HTMLInputElement).checked)} />
    <span>Also send the callback for the new job</span></label>`
}
