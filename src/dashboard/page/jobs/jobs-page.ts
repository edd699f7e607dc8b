/** The page of all jobs, newest first, with filters. The filters are part of the URL. */
import { html } from 'htm/preact'
import { useLayoutEffect, useMemo, useState } from 'preact/hooks'
import { type EffectiveSettings, type JobList, type JobSummary, STATUSES } from '../contract.ts'
import { count, duration, shortId } from '../format.ts'
import { serverNow } from '../live.ts'
import { Badge } from '../parts/badge.ts'
import { Select, TextField } from '../parts/field.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf, SearchStopped } from '../parts/pages-of.ts'
import { Time } from '../parts/time.ts'
import { Empty, StateOf, useReloadOnChange, useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import { RerunJobs } from './job-actions.ts'

const PAGE_SIZE = '50'

export function JobsPage() {
  const { query } = usePlace()
  const filters = filtersIn(query)
  const before = query.get('before') ?? ''
  // The start is computed once per filter: if it moved with the clock, the list would reload at every rendering.
  const since = useMemo(() => sinceOf(filters.time), [filters.time])
  const asked = new URLSearchParams({ limit: PAGE_SIZE })
  for (const name of ['account', 'status', 'model'] as const)
    if (filters[name]) asked.set(name, filters[name])
  for (const [key, value] of pairsIn(filters.metadata)) asked.set(`metadata[${key}]`, value)
  if (since !== null) asked.set('from', String(since))
  if (before) asked.set('before', before)
  const jobs = useResource<JobList>(`/jobs?${asked}`)
  useReloadOnChange(jobs.reload, before === '')
  const { data } = jobs
  const older = () => {
    if (data?.next) navigate(address(['jobs'], { ...filters, before: data.next }))
  }
  const { account, model, status } = filters
  return html`<${PageTitle} title="Jobs">
      ${
        (status === 'failed' || status === 'completed') &&
        html`<${RerunJobs} filters=${{ account, model, status }} from=${since} onChange=${jobs.reload} />`
      }
    <//>
    <${Filters} filters=${filters} />
    ${jobs.error || !data ? html`<${StateOf} of=${jobs} what="the jobs" />` : null}
    ${data && data.jobs.length > 0 && html`<${JobTable} jobs=${data.jobs} />`}
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
    ${data?.complete === false && html`<${SearchStopped} />`}
    ${
      data &&
      html`<${PagesOf} isFirst=${before === ''} more=${data.more} onOlder=${older}
      onNewest=${() => navigate(address(['jobs'], { ...filters }))} />`
    }`
}

function JobTable({ jobs }: { readonly jobs: readonly JobSummary[] }) {
  return html`<table class="list">
    <caption class="visually-hidden">Jobs, newest first</caption>
    <thead>
      <tr>
        <th scope="col">Job</th>
        <th scope="col">Status</th>
        <th scope="col" class="wide">Account</th>
        <th scope="col" class="wide">Model</th>
        <th scope="col" class="wide">Answered by</th>
        <th scope="col" class="number wide">Tokens</th>
        <th scope="col" class="number wide">Duration</th>
        <th scope="col" class="wide">Callback</th>
        <th scope="col" class="number">Created</th>
      </tr>
    </thead>
    <tbody>${jobs.map((job) => html`<${Row} key=${job.job_id} job=${job} />`)}</tbody>
  </table>`
}

function Row({ job }: { readonly job: JobSummary }) {
  const { job_id, status, error_code, account, model, target, cache_hit, created_at, settled_at } = job
  return html`<tr>
    <th scope="row">
      <a class="mono" href=${address(['jobs', job_id])} title=${job_id}>${shortId(job_id)}</a>
      <span class="narrow-only muted">${account} · ${model}</span>
    </th>
    <td><${Badge} state=${status} />${error_code && html` <span class="code-word">${error_code}</span>`}</td>
    <td class="wide">${account}</td>
    <td class="wide">${model}</td>
    <td class="wide">${cache_hit ? 'cache' : (target ?? html`<span class="muted">–</span>`)}</td>
    <td class="number wide">${tokensOf(job)}</td>
    <td class="number wide">${settled_at === null ? '–' : duration((settled_at - created_at) * 1000)}</td>
    <td class="wide">${job.callback ? html`<${Badge} state=${job.callback} />` : html`<span class="muted">–</span>`}</td>
    <td class="number"><${Time} at=${created_at} /></td>
  </tr>`
}

function tokensOf({ input_tokens, output_tokens }: JobSummary): string {
  if (input_tokens === null && output_tokens === null) return '–'
  return `${count(input_tokens ?? 0)} + ${count(output_tokens ?? 0)}`
}

interface JobFilters {
  readonly account: string
  readonly status: string
  readonly model: string
  /** Metadata as `customer=acme team=a`. */
  readonly metadata: string
  /** One of TIMES; empty for any. */
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

/** Spaces separate pairs; text without `=` belongs to the value before it. */
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

/** The start of the time range in Unix seconds; null for any time. */
function sinceOf(time: string): number | null {
  const span = TIMES[time]
  return span === undefined ? null : Math.floor(serverNow() - span)
}

function Filters({ filters }: { readonly filters: JobFilters }) {
  const settings = useResource<EffectiveSettings>('/settings')
  const [id, setId] = useState('')
  const [account, setAccount] = useState(filters.account)
  // The back button restores earlier filters. A layout effect sets the field before the next key press, so that no input is lost.
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

/** An old link may name a model that is no longer configured. */
function modelsAnd(chosen: string, models: readonly string[]): (readonly [string, string])[] {
  const all = chosen === '' || models.includes(chosen) ? models : [...models, chosen]
  return all.map((model) => [model, model])
}
