/** How much an account may use in a month: what its tier says, a number of its own, or no end; beside what it used in this one. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { useAction } from '../action.ts'
import { admin } from '../api.ts'
import type { Account } from '../contract.ts'
import type { Cap, Caps, UsageList } from '../contract-operations.ts'
import { exact } from '../format.ts'
import { serverNow } from '../live.ts'
import { Select, TextField } from '../parts/field.ts'
import { Panel } from '../parts/panel.ts'
import { useResource } from '../resource.ts'
import { monthAt, sumOf } from '../usage/sums.ts'

type Kind = 'tier' | 'none' | 'number'

/** A cap as it is being typed. */
interface Draft {
  readonly kind: Kind
  readonly number: string
}

const KINDS: readonly (readonly [Kind, string])[] = [
  ['tier', 'as its tier says'],
  ['number', 'a number'],
  ['none', 'no end'],
]

export interface CapsPanelProps {
  readonly account: Account
  readonly onChange: () => void
}

export function CapsPanel({ account, onChange }: CapsPanelProps) {
  const { name, max_monthly_jobs, max_monthly_tokens } = account
  const [jobs, setJobs] = useState(draftOf(max_monthly_jobs))
  const [tokens, setTokens] = useState(draftOf(max_monthly_tokens))
  const [tried, setTried] = useState(false)
  const save = useAction(async () => {
    const body: Caps = { max_monthly_jobs: capOf(jobs), max_monthly_tokens: capOf(tokens) }
    await admin(`/accounts/${encodeURIComponent(name)}/caps`, { body })
    return `The caps of ${name} are set; every node knows within seconds.`
  }, onChange)
  const onSubmit = (event: Event) => {
    event.preventDefault()
    setTried(true)
    if (problemOf(jobs) === null && problemOf(tokens) === null) void save.run()
  }
  return html`<${Panel} title="Monthly caps">
    <${Used} name=${name} />
    <form class="stack" onSubmit=${onSubmit} novalidate>
      <${CapField} label="Jobs a month" draft=${jobs} onChange=${setJobs} error=${tried ? problemOf(jobs) : null} />
      <${CapField} label="Tokens a month" draft=${tokens} onChange=${setTokens} error=${tried ? problemOf(tokens) : null} />
      <div><button type="submit" class="button" disabled=${save.busy}>Set the caps</button></div>
    </form>
  <//>`
}

interface CapFieldProps {
  readonly label: string
  readonly draft: Draft
  readonly onChange: (draft: Draft) => void
  readonly error: string | null
}

function CapField({ label, draft, onChange, error }: CapFieldProps) {
  return html`<div class="cap">
    <${Select} label=${label} value=${draft.kind} options=${KINDS} onChange=${(kind: Kind) => onChange({ ...draft, kind })} />
    ${
      draft.kind === 'number' &&
      html`<${TextField} label=${`${label}, at most`} value=${draft.number} inputmode="numeric" autocomplete="off" error=${error}
        onInput=${(number: string) => onChange({ ...draft, number })} />`
    }
  </div>`
}

function Used({ name }: { readonly name: string }) {
  const month = monthAt(serverNow())
  const { data } = useResource<UsageList>(
    `/usage?${new URLSearchParams({ account: name, month, limit: '200' })}`,
  )
  const { jobs, input_tokens, output_tokens } = sumOf(data?.usage ?? [])
  return html`<p class="hint">A month ends in UTC. ${
    data &&
    `In this one, ${exact(jobs)} jobs have ended and ${exact(input_tokens + output_tokens)} tokens were used.`
  }</p>`
}

function draftOf(cap: Cap): Draft {
  return typeof cap === 'number' ? { kind: 'number', number: String(cap) } : { kind: cap, number: '' }
}

function capOf({ kind, number }: Draft): Cap {
  return kind === 'number' ? Number(number) : kind
}

function problemOf({ kind, number }: Draft): string | null {
  if (kind !== 'number') return null
  const isCount = /^\d+$/.test(number.trim()) && Number.isSafeInteger(Number(number))
  return isCount ? null : 'Give a whole number, 0 or more.'
}
