/** How much an account may use in a month: what its tier says, a number of its own, or no end; beside what it used in this one. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { useAction } from '../action.ts'
import { admin } from '../api.ts'
import type { Account, SettingsInForce } from '../contract.ts'
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

type CapName = keyof Caps

export interface CapsPanelProps {
  readonly account: Account
  readonly onChange: () => void
}

export function CapsPanel({ account, onChange }: CapsPanelProps) {
  const { name, tier, max_monthly_jobs, max_monthly_tokens } = account
  const settings = useResource<SettingsInForce>('/settings')
  const ofTier = (cap: CapName) => tierCap(settings.data, tier, cap)
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
      <${CapField} label="Jobs a month" ofTier=${ofTier('max_monthly_jobs')} draft=${jobs} onChange=${setJobs} error=${tried ? problemOf(jobs) : null} />
      <${CapField} label="Tokens a month" ofTier=${ofTier('max_monthly_tokens')} draft=${tokens} onChange=${setTokens} error=${tried ? problemOf(tokens) : null} />
      <div><button type="submit" class="button" disabled=${save.busy}>Set the caps</button></div>
    </form>
  <//>`
}

interface CapFieldProps {
  readonly label: string
  /** What the tier says, in words; null where that is not known. */
  readonly ofTier: string | null
  readonly draft: Draft
  readonly onChange: (draft: Draft) => void
  readonly error: string | null
}

function CapField({ label, ofTier, draft, onChange, error }: CapFieldProps) {
  const kinds: readonly (readonly [Kind, string])[] = [
    ['tier', ofTier === null ? 'as its tier says' : `as its tier says: ${ofTier}`],
    ['number', 'a number'],
    ['none', 'no end'],
  ]
  return html`<div class="cap">
    <${Select} label=${label} value=${draft.kind} options=${kinds} onChange=${(kind: Kind) => onChange({ ...draft, kind })} />
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

/** By the settings of the node that the page came from. */
function tierCap(data: SettingsInForce | null, tier: string, cap: CapName): string | null {
  const tiers = data?.settings.tiers as
    | Readonly<Record<string, Partial<Record<CapName, number | null>>>>
    | undefined
  const found = tiers?.[tier]?.[cap]
  if (found === undefined) return null
  return found === null ? 'no end' : exact(found)
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
