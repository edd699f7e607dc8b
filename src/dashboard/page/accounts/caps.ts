/**
 * Shows and edits the monthly caps and the quotas of an account, with their current use. A cap is the tier's, a number of the
 * account's own, or none.
 */
import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { Account, Cap, Caps, EffectiveSettings, UsageList } from '../contract.ts'
import { amount, counted, exact } from '../format.ts'
import { serverNow } from '../live.ts'
import { useAction } from '../parts/dialog.ts'
import { Select, TextField } from '../parts/field.ts'
import { Panel } from '../parts/sections.ts'
import { useResource } from '../resource.ts'
import { monthAt, sumOf } from '../usage/read-usage.ts'

type Kind = 'tier' | 'none' | 'number'

interface Draft {
  readonly kind: Kind
  readonly number: string
}

type CapName = keyof Caps

export interface CapsPanelProps {
  readonly account: Account
  readonly onChange: () => void
}

const LABELS: Readonly<Record<CapName, string>> = {
  max_monthly_jobs: 'Jobs per month',
  max_monthly_tokens: 'Tokens per month',
  max_monthly_cost: 'Cost per month',
  max_open_jobs: 'Open jobs',
  max_stored_bytes: 'Stored bytes',
}
const NAMES = Object.keys(LABELS) as CapName[]

export function CapsPanel({ account, onChange }: CapsPanelProps) {
  const { name, tier } = account
  const settings = useResource<EffectiveSettings>('/settings')
  // Another operator may change other caps meanwhile, so only edited caps are sent.
  const [edited, setEdited] = useState<Partial<Record<CapName, Draft>>>({})
  const draftFor = (cap: CapName) => edited[cap] ?? draftOf(account[cap] ?? 'tier')
  // Without a currency, there are no costs to limit.
  const names = NAMES.filter((cap) => cap !== 'max_monthly_cost' || settings.data?.settings.currency)
  const [submitted, setSubmitted] = useState(false)
  const isSaved = useRef(false)
  const save = useAction(
    async () => {
      const body = Object.fromEntries(Object.entries(edited).map(([cap, draft]) => [cap, capOf(draft)]))
      await admin(`/accounts/${encodeURIComponent(name)}/caps`, { body })
      return `The caps of ${name} are set. Every node applies them within a few seconds.`
    },
    (isDone) => {
      isSaved.current = isDone
      onChange()
    },
  )
  // If the fields were reset at once, they would show the old values until the account has been loaded again.
  useEffect(() => {
    if (isSaved.current) setEdited({})
    isSaved.current = false
  }, [account])
  const onSubmit = (event: Event) => {
    event.preventDefault()
    setSubmitted(true)
    if (names.every((cap) => problemOf(draftFor(cap), cap) === null)) void save.run()
  }
  return html`<${Panel} title="Caps and quotas">
    <${CurrentUsage} account=${account} />
    <form class="stack" onSubmit=${onSubmit} novalidate>
      ${names.map(
        (
          cap,
        ) => html`<${CapField} key=${cap} label=${LABELS[cap]} ofTier=${tierCap(settings.data, tier, cap)} draft=${draftFor(cap)}
          onChange=${(draft: Draft) => setEdited({ ...edited, [cap]: draft })} error=${submitted ? problemOf(draftFor(cap), cap) : null} />`,
      )}
      <div><button type="submit" class="button" disabled=${save.busy || Object.keys(edited).length === 0}>Set caps</button></div>
    </form>
  <//>`
}

interface CapFieldProps {
  readonly label: string
  /** `ofTier` is the tier's cap as text. Null means that the cap is not known. */
  readonly ofTier: string | null
  readonly draft: Draft
  readonly onChange: (draft: Draft) => void
  readonly error: string | null
}

function CapField({ label, ofTier, draft, onChange, error }: CapFieldProps) {
  const kinds: readonly (readonly [Kind, string])[] = [
    ['tier', ofTier === null ? 'tier default' : `tier default: ${ofTier}`],
    ['number', 'a number'],
    ['none', 'no cap'],
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

function CurrentUsage({ account }: { readonly account: Account }) {
  const { name, open_jobs, stored_bytes } = account
  const month = monthAt(serverNow())
  const { data } = useResource<UsageList>(
    `/usage?${new URLSearchParams({ account: name, month, limit: '200' })}`,
  )
  const { jobs, input_tokens, output_tokens, cost } = sumOf(data?.usage ?? [])
  const inMoney =
    cost === undefined ? '' : `, a cost of ${amount(cost)}${data?.currency ? ` ${data.currency}` : ''}`
  return html`<p class="hint">Months are in UTC. ${
    data &&
    `This month: ${counted(jobs, 'job')} and ${counted(input_tokens + output_tokens, 'token')}${inMoney}.`
  } Now: ${counted(open_jobs, 'open job')} and ${counted(stored_bytes, 'stored byte')}.</p>`
}

/** The settings are those of the node that served the page. Returns null until they are loaded. */
function tierCap(data: EffectiveSettings | null, tier: string, cap: CapName): string | null {
  const tiers = data?.settings.tiers as
    | Readonly<Record<string, Partial<Record<CapName, number | null>>>>
    | undefined
  const found = tiers?.[tier]?.[cap]
  if (found === undefined) return null
  if (found === null) return 'no cap'
  return cap === 'max_monthly_cost' ? amount(found * 1_000_000) : exact(found)
}

function draftOf(cap: Cap): Draft {
  return typeof cap === 'number' ? { kind: 'number', number: String(cap) } : { kind: cap, number: '' }
}

function capOf({ kind, number }: Draft): Cap {
  return kind === 'number' ? Number(number) : kind
}

function problemOf({ kind, number }: Draft, cap: CapName): string | null {
  if (kind !== 'number') return null
  if (cap === 'max_monthly_cost')
    return /^\d+(\.\d{1,6})?$/.test(number.trim()) ? null : 'Enter an amount of at least 0, such as 12.50.'
  const isCount = /^\d+$/.test(number.trim()) && Number.isSafeInteger(Number(number))
  return isCount ? null : 'Enter a whole number of at least 0.'
}
