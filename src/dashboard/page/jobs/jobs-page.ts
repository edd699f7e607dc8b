/** Renders the page of all jobs, newest first. Its URL contains the filters. */
import { html } from 'htm/preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { type EffectiveSettings, type JobList, type JobSummary, STATUSES } from '../contract.ts'
import { count, duration, shortId } from '../format.ts'
import { serverNow } from '../live.ts'
import { Select, TextField } from '../parts/field.ts'
import { Badge, Time } from '../parts/labels.ts'
import { type Columns, given, NOTHING, Table, useList } from '../parts/list.ts'
import { PageTitle } from '../parts/sections.ts'
import { Empty, StateOf, useReloadOnChange, useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import { RerunJobs } from './job-actions.ts'

export function JobsPage() {
  const { query } = usePlace()
  const filters = filtersIn(query)
  const { account, model, status } = filters
  const metadata = pairsIn(filters.metadata).map(([key, value]) => [`metadata[${key}]`, value] as const)
  const jobs = useList<JobList>('jobs', { ...filters }, () => {
    const since = sinceOf(filters.time)
    return {
      ...given({ account, status, model }),
      ...Object.fromEntries(metadata),
      ...(since !== null && { from: String(since) }),
    }
  })
  useReloadOnChange(jobs.reload, jobs.isFirst)
  const { data } = jobs
  // A rerun of a search cannot filter by metadata, so it would include jobs that the page does not show.
  const canRerun = (status === 'failed' || status === 'completed') && filters.metadata === ''
  return html`<${PageTitle} title="Jobs">
      ${
        canRerun &&
        html`<${RerunJobs} filters=${{ account, model, status }} from=${sinceOf(filters.time)} onChange=${jobs.reload} />`
      }
    <//>
    <${Filters} filters=${filters} />
    <${StateOf} of=${jobs} what="the jobs" />
    ${data && data.jobs.length > 0 && html`<${Table} class="list" caption="Jobs, newest first" columns=${COLUMNS} rows=${data.jobs} keyOf=${idOf} />`}
    ${
      data?.jobs.length === 0 &&
      html`<${Empty} title=${isFiltered(filters) ? 'No matching jobs' : 'No jobs yet'}>
        ${
          isFiltered(filters)
            ? html`<p>Change the filters, or <a href=${address(['jobs'])}>show all</a>.</p>`
            : html`<p>Send a job from the <a href=${address(['playground'])}>playground</a>.</p>`
        }
      <//>`
    }
    ${jobs.pages}`
}

const idOf = ({ job_id }: JobSummary) => job_id

const COLUMNS: Columns<JobSummary> = [
  ['Job', nameOf],
  [
    'Status',
    ({ status, error_code }) =>
      html`<${Badge} state=${status} />${error_code && html` <span class="code-word">${error_code}</span>`}`,
  ],
  ['Account', ({ account }) => account, 'wide'],
  ['Model', ({ model }) => model, 'wide'],
  ['Answered by', ({ cache_hit, target }) => (cache_hit ? 'cache' : (target ?? NOTHING)), 'wide'],
  ['Tokens', tokensOf, 'number wide'],
  [
    'Duration',
    ({ created_at, settled_at }) => (settled_at === null ? '–' : duration((settled_at - created_at) * 1000)),
    'number wide',
  ],
  ['Callback', ({ callback }) => (callback ? html`<${Badge} state=${callback} />` : NOTHING), 'wide'],
  ['Created', ({ created_at }) => html`<${Time} at=${created_at} />`, 'number'],
]

function nameOf({ job_id, account, model }: JobSummary) {
  return html`<a class="mono" href=${address(['jobs', job_id])} title=${job_id}>${shortId(job_id)}</a>
    <span class="narrow-only muted">${account} · ${model}</span>`
}

function tokensOf({ input_tokens, output_tokens }: JobSummary): string {
  if (input_tokens === null && output_tokens === null) return '–'
  return `${count(input_tokens ?? 0)} + ${count(output_tokens ?? 0)}`
}

interface JobFilters {
  readonly account: string
  readonly status: string
  readonly model: string
  /** `metadata` contains pairs separated by spaces, such as `customer=acme team=a`. */
  readonly metadata: string
  /** `time` is a key of TIMES. An empty text means any time. */
  readonly time: string
}

const TIMES: Readonly<Record<string, number>> = { '15m': 900, '1h': 3600, '24h': 86_400, '7d': 604_800 }
const ANY = ['', 'any'] as const

function filtersIn(query: URLSearchParams): JobFilters {
  const read = (name: string) => query.get(name) ?? ''
  return {
    account: read('account'),
    status: read('status'),
    model: read('model'),
    metadata: read('metadata'),
    time: read('time'),
  }
}

/** A word without `=` belongs to the value before it, so values can contain spaces. */
function pairsIn(text: string): (readonly [key: string, value: string])[] {
  const pairs: [string, string][] = []
  for (const word of text.split(' ')) {
    const at = word.indexOf('=')
    const last = pairs.at(-1)
    if (at >= 0) pairs.push([word.slice(0, at), word.slice(at + 1)])
    else if (last) last[1] += ` ${word}`
    else if (word !== '') pairs.push([word, ''])
  }
  return pairs
}

const isFiltered = (filters: JobFilters): boolean => Object.values(filters).some((value) => value !== '')

/** Returns the start of the time range in Unix seconds, or null for any time. */
function sinceOf(time: string): number | null {
  const span = TIMES[time]
  return span === undefined ? null : Math.floor(serverNow() - span)
}

function Filters({ filters }: { readonly filters: JobFilters }) {
  const settings = useResource<EffectiveSettings>('/settings')
  const [id, setId] = useState('')
  const [account, setAccount] = useState(filters.account)
  // The back button restores earlier filters. A layout effect changes the fields before the next key press, so no input is
  // lost.
  useLayoutEffect(() => setAccount(filters.account), [filters.account])
  const [metadata, setMetadata] = useState(filters.metadata)
  useLayoutEffect(() => setMetadata(filters.metadata), [filters.metadata])
  const set = (change: Partial<JobFilters>) => {
    const typed = { account: account.trim(), metadata: metadata.trim() }
    navigate(address(['jobs'], { ...filters, ...typed, ...change }))
  }
  const models = Object.keys((settings.data?.settings.models as object | undefined) ?? {})
  const onSubmit = (event: Event) => {
    event.preventDefault()
    if (id.trim() !== '') navigate(address(['jobs', id.trim()]))
    else set({})
  }
  return html`<form class="filters" role="search" aria-label="Jobs" onSubmit=${onSubmit}>
    <${TextField} label="Job ID" value=${id} onInput=${setId} placeholder="019a…" spellcheck=${false} autocomplete="off" />
    <${TextField} label="Account" value=${account} onInput=${setAccount} placeholder="any" spellcheck=${false} autocomplete="off" />
    <${TextField} label="Metadata" value=${metadata} onInput=${setMetadata} placeholder="customer=acme" spellcheck=${false} autocomplete="off" />
    <${Select} label="Status" value=${filters.status} options=${[ANY, ...STATUSES.map((status) => [status, status] as const)]}
      onChange=${(status: string) => set({ status })} />
    <${Select} label="Model" value=${filters.model} options=${[ANY, ...modelsAnd(filters.model, models)]}
      onChange=${(model: string) => set({ model })} />
    <${Select} label="Created" value=${filters.time}
      options=${[['', 'any time'], ['15m', 'last 15 minutes'], ['1h', 'last hour'], ['24h', 'last day'], ['7d', 'last 7 days']]}
      onChange=${(time: string) => set({ time })} />
    <button type="submit" class="button">Search</button>
  </form>`
}

/** An old link may contain a model that is no longer configured. */
function modelsAnd(chosen: string, models: readonly string[]): (readonly [string, string])[] {
  const all = chosen === '' || models.includes(chosen) ? models : [...models, chosen]
  return all.map((model) => [model, model])
}
