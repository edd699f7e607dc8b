/** Renders the page of one job: its facts and timeline, and its contents on request. */
import { html } from 'htm/preact'
import { Attempts, ReplayButton } from '../callbacks/callbacks-page.ts'
import type { JobDetails, TimelineEntry } from '../contract.ts'
import { amount, count, dateAndTime, duration, timeOfDayMs } from '../format.ts'
import { CopyButton } from '../parts/copy-and-save.ts'
import { Badge, Icon } from '../parts/labels.ts'
import { Facts, PageTitle, Panel } from '../parts/sections.ts'
import { Empty, StateOf, useReloadOnChange, useResource } from '../resource.ts'
import { address } from '../router.ts'
import { Content } from './content.ts'
import { CancelJob, DeleteJob, RerunJob } from './job-actions.ts'

export function JobPage({ id }: { readonly id: string }) {
  const job = useResource<JobDetails>(`/jobs/${encodeURIComponent(id)}`)
  // If the job was deleted or has expired after it was loaded, its data must disappear from the page.
  const isGone = job.error?.status === 404
  const data = isGone ? null : job.data
  const isOpen = data !== null && (data.settled_at === null || data.callback?.state === 'owed')
  useReloadOnChange(job.reload, isOpen, 1500)
  return html`<p class="back-link"><a href=${address(['jobs'])}><${Icon} name="back" />Jobs</a></p>
    <${PageTitle} title="Job" tab=${`Job ${id.slice(0, 8)}`}>
      ${data && html`<${Badge} state=${data.status} /><${Actions} job=${data} onChange=${job.reload} />`}
    <//>
    <p class="id-line"><code>${id}</code><${CopyButton} text=${id} what="the job ID" small /></p>
    ${
      isGone
        ? html`<${Empty} title="Job not found"><p>It never existed, has expired, or was deleted. <a href=${address(['jobs'])}>All jobs</a></p><//>`
        : html`<${StateOf} of=${job} what="the job" />`
    }
    ${data && html`<${Details} job=${data} onChange=${job.reload} />`}`
}

function Actions({ job, onChange }: { readonly job: JobDetails; readonly onChange: () => void }) {
  return job.settled_at === null
    ? html`<${CancelJob} job=${job} onChange=${onChange} />`
    : html`<${RerunJob} job=${job} onChange=${onChange} /><${DeleteJob} job=${job} onChange=${onChange} />`
}

function Details({ job, onChange }: { readonly job: JobDetails; readonly onChange: () => void }) {
  const { callback } = job
  return html`<${Facts} facts=${factsOf(job)} />
    <div class="columns">
      <${Panel} title="Timeline"><${Timeline} entries=${job.timeline} /><//>
      <${Content} job=${job} />
    </div>
    ${
      callback &&
      html`<${Panel} title="Callback" wide
        actions=${html`<${Badge} state=${callback.under_way ? 'in progress' : callback.state} /><${ReplayButton} callback=${callback} onReplayed=${onChange} />`}>
        <${Attempts} callback=${callback} />
      <//>`
    }`
}

function factsOf(job: JobDetails) {
  const {
    created_at,
    claimed_at,
    settled_at,
    priority,
    deadline,
    input_tokens,
    output_tokens,
    cost,
    waiting_for_upstream: waiting,
  } = job
  const link = html`<a href=${address(['accounts', job.account])}>${job.account}</a>`
  return [
    ['Account', html`${link} <span class="muted">${job.tier}</span>`],
    ['Model', job.model],
    [
      job.status === 'failed' ? 'Last called' : 'Answered by',
      job.cache_hit ? 'cached response, no model was called' : (job.target ?? '–'),
    ],
    ...(waiting === null
      ? []
      : [
          [
            'Waiting for',
            html`${waiting.targets.join(', ')} since ${dateAndTime(waiting.since)} <span class="muted">(${waiting.reason}: ${waiting.message})</span>`,
          ],
        ]),
    ...(job.waiting_for_budget ? [['Waiting for', 'the monthly budget of its account']] : []),
    ['Answer format', job.response_format],
    ['Created', dateAndTime(created_at)],
    ['Priority', priority],
    ...(deadline === null ? [] : [['Deadline', dateAndTime(deadline)]]),
    ['Queue time', claimed_at === null ? '–' : duration((claimed_at - created_at) * 1000)],
    [
      'Run time',
      settled_at === null || claimed_at === null ? '–' : duration((settled_at - claimed_at) * 1000),
    ],
    ['Tokens', input_tokens === null ? '–' : `${count(input_tokens)} in, ${count(output_tokens ?? 0)} out`],
    ...(cost === undefined ? [] : [['Cost', amount(cost)]]),
    [
      'Attempts',
      html`${job.attempts}${job.deaths > 0 ? html` <span class="muted">(its node crashed ${job.deaths} ${job.deaths === 1 ? 'time' : 'times'})</span>` : ''}`,
    ],
    ...(job.batch === null
      ? []
      : [
          [
            'Batch',
            html`<a class="mono breaks" href=${address(['batches', job.batch.batch_id])}>${job.batch.batch_id}</a>`,
          ],
          ['custom_id', html`<span class="breaks">${job.batch.custom_id}</span>`],
        ]),
    ...(job.rerun_of === null ? [] : [['Rerun of', jobLink(job.rerun_of)]]),
    ...(job.reruns.length === 0 ? [] : [['Rerun as', job.reruns.map(jobLink)]]),
    ...(job.error_code === null ? [] : [['Error', html`<span class="code-word">${job.error_code}</span>`]]),
  ]
}

function jobLink(id: string) {
  return html`<a class="mono" href=${address(['jobs', id])}>${id}</a> `
}

function Timeline({ entries }: { readonly entries: readonly TimelineEntry[] }) {
  return html`<ol class="timeline">
    ${entries.map(
      (entry, index) => html`<li key=${index} class=${toneOf(entry)}>
      <span class="timeline-what">${WORDS[entry.what]}</span>
      ${entry.detail && html`<span class="timeline-detail">${entry.detail}</span>`}
      <span class="timeline-at">${whenOf(entry, entries[index - 1]?.at ?? null)}</span>
    </li>`,
    )}
  </ol>`
}

const WORDS = {
  accepted: 'Accepted',
  assigned: 'Assigned to a node',
  call: 'Model called',
  settled: 'Settled',
  callback: 'Callback attempt',
} as const

function whenOf({ at }: TimelineEntry, previous: number | null) {
  const moment = html`<time datetime=${new Date(at * 1000).toISOString()} title=${dateAndTime(at)}>${timeOfDayMs(at)}</time>`
  if (previous === null) return moment
  return html`${moment}<span>+${duration((at - previous) * 1000)}</span>`
}

/** The server describes events in text, such as `failed: model_error` or `attempt 2: 503, 12 ms`. */
function toneOf({ what, detail }: TimelineEntry): string {
  const words = detail ?? ''
  if (what === 'settled') return words.startsWith('completed') ? 'is-good' : 'is-bad'
  if (what === 'call') return words.includes(': answer,') ? 'is-good' : 'is-bad'
  if (what === 'callback') return /^attempt \d+: 2\d\d,/.test(words) ? 'is-good' : 'is-bad'
  return ''
}
