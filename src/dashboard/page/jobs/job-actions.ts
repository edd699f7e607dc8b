/** Stepping in at one job: ending it before its time, and deleting it once it has ended. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { useAction } from '../action.ts'
import { admin } from '../api.ts'
import type { JobDetails } from '../contract.ts'
import { Confirm } from '../parts/dialog.ts'
import { Scrub } from '../parts/scrub.ts'
import { address, navigate } from '../router.ts'

export interface JobActionProps {
  readonly job: JobDetails
  readonly onChange: () => void
}

export function CancelJob({ job, onChange }: JobActionProps) {
  const [asking, setAsking] = useState(false)
  const cancel = useAction(
    async () => {
      await admin(`/jobs/${job.job_id}/cancel`, { body: {} })
      return 'The job is cancelled.'
    },
    () => {
      setAsking(false)
      onChange()
    },
  )
  return html`<button type="button" class="button" onClick=${() => setAsking(true)}>Cancel the job…</button>
    ${
      asking &&
      html`<${Confirm} title="Cancel this job?" action="Cancel the job" back="Leave it" danger busy=${cancel.busy} onConfirm=${cancel.run}
        onClose=${() => setAsking(false)}>
        <p>It ends for good, as <strong>failed</strong> with <code>cancelled</code>. A call to a model that is under way is cut off within a
        second, and what it would have answered is lost.</p>
        <p>Whoever waits for the job is answered, and its callback, if it has one, is sent. It counts as a job of the month.</p>
      <//>`
    }`
}

export function DeleteJob({ job, onChange }: JobActionProps) {
  const [asking, setAsking] = useState(false)
  const [scrub, setScrub] = useState(true)
  const remove = useAction(
    async () => {
      await admin(`/jobs/${job.job_id}?scrub=${scrub}`, { method: 'DELETE' })
      return 'The job is deleted.'
    },
    (isDone) => {
      setAsking(false)
      if (isDone) navigate(address(['jobs']))
      else onChange()
    },
  )
  return html`<button type="button" class="button" onClick=${() => setAsking(true)}>Delete the job…</button>
    ${
      asking &&
      html`<${Confirm} title="Delete this job?" action="Delete the job" danger busy=${remove.busy} onConfirm=${remove.run}
        onClose=${() => setAsking(false)}>
        <p>Its conversation, its answer (kept ones, too), its receipt and its callback with all attempts are gone for good; who reads it is
        told that there is no such job.${job.callback?.state === 'owed' ? ' Its callback has not been delivered and never will be.' : ''}</p>
        <p>It stays counted in the account's usage, and the audit log keeps its id.</p>
        <${Scrub} value=${scrub} onChange=${setScrub} />
      <//>`
    }`
}
