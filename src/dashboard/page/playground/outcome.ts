/** Shows the jobs that the playground has sent, with their statuses and answers. */
import { html } from 'htm/preact'
import type { Status } from '../contract.ts'
import { contentText, duration } from '../format.ts'
import { CodeBlock } from '../parts/copy-button.ts'
import { Panel } from '../parts/sections.ts'
import { address } from '../router.ts'
import { isOpen, type WatchedJob, type Watching } from './watch.ts'

export interface OutcomeProps {
  readonly watching: Watching | null
  readonly onStop: () => void
  readonly onCancel: () => void
}

export function Outcome({ watching, onStop, onCancel }: OutcomeProps) {
  if (!watching) {
    return html`<${Panel} title="Answer"><p class="muted">Send the request to see its statuses here: <em>pending</em>, <em>assigned</em>,
      then <em>completed</em> or <em>failed</em>.</p><//>`
  }
  const { jobs, failure, ended } = watching
  const open = jobs.filter((job) => isOpen(job) && job.jobId !== null).length
  const actions =
    !ended &&
    html`${open > 0 && html`<button type="button" class="quiet-button" onClick=${onCancel}>Cancel ${open === 1 ? 'the job' : `${open} jobs`}</button>`}
      <button type="button" class="quiet-button" onClick=${onStop}>Stop watching</button>`
  return html`<${Panel} title=${jobs.length === 1 ? 'Answer' : `Answers (${jobs.filter((job) => !isOpen(job)).length} of ${jobs.length})`} actions=${actions}>
    ${
      failure &&
      html`<div class="fault" role="alert"><p><strong>${failure.message}</strong>${failure.details ? html`<br /><span class="breaks">${failure.details}</span>` : ''}</p></div>`
    }
    ${(!failure || jobs.some(({ jobId }) => jobId !== null)) && html`<ol class="outcomes">${jobs.map((job, index) => html`<${Job} key=${index} job=${job} />`)}</ol>`}
  <//>`
}

function Job({ job }: { readonly job: WatchedJob }) {
  const { jobId, content, error, cacheHit } = job
  return html`<li class="outcome">
    <${Steps} job=${job} />
    ${job.status === 'completed' && html`<${CodeBlock} text=${contentText(content)} what="the answer" />`}
    ${
      error &&
      html`<div class="fault"><p><span class="code-word">${error.code}</span> ${error.message}${error.upstream_message ? ` ${error.upstream_message}` : ''}</p>
      ${error.errors && html`<ul class="faults">${error.errors.map((one) => html`<li>${one}</li>`)}</ul>`}</div>`
    }
    <p class="outcome-foot">
      ${jobId !== null && html`<a href=${address(['jobs', jobId])}>Timeline and receipt</a>`}
      ${cacheHit && html`<span class="badge good">from the cache</span>`}
    </p>
  </li>`
}

function Steps({ job }: { readonly job: WatchedJob }) {
  const last = job.status === 'failed' ? 'failed' : 'completed'
  const steps: readonly Status[] = ['pending', 'assigned', last]
  const reached = job.status === 'sent' ? -1 : steps.indexOf(job.status)
  return html`<ol class="steps" aria-label="Status">
    ${steps.map((step, index) => {
      const at = job.seen[step]
      const state = index < reached ? 'is-past' : index === reached ? 'is-here' : 'is-ahead'
      return html`<li key=${step} class=${`step ${state} is-${step}`} aria-current=${index === reached ? 'step' : undefined}>
        <span class="step-name">${step}</span>
        <span class="step-at">${at === undefined ? (index < reached ? 'passed' : '') : `after ${duration(at)}`}</span>
      </li>`
    })}
  </ol>`
}
