/** Admin actions on one job: cancel it, or delete it after it has finished. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { ConfirmedAction } from '../action.ts'
import { admin } from '../api.ts'
import type { JobDetails } from '../contract.ts'
import { Scrub } from '../parts/scrub.ts'
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
