/** The filters of the job list. They are part of the URL, so that searches can be linked. */
import { html } from 'htm/preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { type EffectiveSettings, STATUSES } from '../contract.ts'
import { serverNow } from '../live.ts'
import { Select, TextField } from '../parts/field.ts'
import { useResource } from '../resource.ts'
import { address, navigate } from '../router.ts'

export interface JobFilters {
  readonly account: string
  readonly status: string
  readonly model: string
  /** One of TIMES; empty for any. */
  readonly time: string
}

const TIMES: Readonly<Record<string, number>> = { '15m': 900, '1h': 3600, '24h': 86_400, '7d': 604_800 }
const ANY = ['', 'any'] as const

export function filtersIn(query: URLSearchParams): JobFilters {
  const read = (name: string) => query.get(name) ?? ''
  return { account: read('account'), status: read('status'), model: read('model'), time: read('time') }
}

export const isFiltered = (filters: JobFilters): boolean =>
  Object.values(filters).some((value) => value !== '')

/** The start of the time range in Unix seconds; null for any time. */
export function sinceOf(time: string): number | null {
  const span = TIMES[time]
  return span === undefined ? null : Math.floor(serverNow() - span)
}

export function Filters({ filters }: { readonly filters: JobFilters }) {
  const settings = useResource<EffectiveSettings>('/settings')
  const [id, setId] = useState('')
  const [account, setAccount] = useState(filters.account)
  // The back button restores earlier filters. A layout effect sets the field before the next key press, so that no input is lost.
  useLayoutEffect(() => setAccount(filters.account), [filters.account])
  const set = (change: Partial<JobFilters>) => {
    navigate(address(['jobs'], { ...filters, ...change }))
  }
  const models = Object.keys((settings.data?.settings.models as object | undefined) ?? {})
  const onSubmit = (event: Event) => {
    event.preventDefault()
    if (id.trim() !== '') navigate(address(['jobs', id.trim()]))
    else set({ account: account.trim() })
  }
  return html`<form class="filters" role="search" aria-label="Jobs" onSubmit=${onSubmit}>
    <${TextField} label="Job ID" value=${id} onInput=${setId} placeholder="019a…" spellcheck=${false} autocomplete="off" />
    <${TextField} label="Account" value=${account} onInput=${setAccount} placeholder="any" spellcheck=${false} autocomplete="off" />
    <${Select} label="Status" value=${filters.status} options=${[ANY, ...STATUSES.map((status) => [status, status] as const)]}
      onChange=${(status: string) => set({ status, account: account.trim() })} />
    <${Select} label="Model" value=${filters.model} options=${[ANY, ...modelsAnd(filters.model, models)]}
      onChange=${(model: string) => set({ model, account: account.trim() })} />
    <${Select} label="Created" value=${filters.time}
      options=${[['', 'any time'], ['15m', 'last 15 minutes'], ['1h', 'last hour'], ['24h', 'last day'], ['7d', 'last 7 days']]}
      onChange=${(time: string) => set({ time, account: account.trim() })} />
    <button type="submit" class="button">Search</button>
  </form>`
}

/** An old link may name a model that is no longer configured. */
function modelsAnd(chosen: string, models: readonly string[]): (readonly [string, string])[] {
  const all = chosen === '' || models.includes(chosen) ? models : [...models, chosen]
  return all.map((model) => [model, model])
}
