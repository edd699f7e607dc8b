/** Sets the tier of an account. */
import { html } from 'htm/preact'
import { admin } from '../api.ts'
import { TIERS } from '../contract.ts'
import { announce } from '../parts/announce.ts'
import { Select } from '../parts/field.ts'
import { apiError } from '../resource.ts'

export interface TierSelectProps {
  readonly name: string
  readonly tier: string
  readonly onChange: () => void
}

export function TierSelect({ name, tier, onChange }: TierSelectProps) {
  const setTier = async (to: string) => {
    try {
      await admin(`/accounts/${encodeURIComponent(name)}/tier`, { body: { tier: to } })
      announce(`The account ${name} now has the tier ${to}.`)
    } catch (error) {
      announce(apiError(error).words, true)
    }
    onChange()
  }
  return html`<${Select} label=${`Tier of ${name}`} hideLabel value=${tier} options=${TIERS.map((one) => [one, one])}
    onChange=${(to: string) => void setTier(to)} />`
}
