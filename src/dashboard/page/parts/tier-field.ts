/** Chooses one of the configured tiers. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { admin } from '../api.ts'
import type { EffectiveSettings } from '../contract.ts'
import { Select } from './field.ts'

export interface TierFieldProps {
  readonly label: string
  readonly hideLabel?: boolean
  readonly value: string
  readonly onChange: (tier: string) => void
}

/** The tiers are loaded once: a server's settings do not change, and a page may have many of these fields. */
let loading: Promise<readonly string[]> | null = null

export function TierField({ value, ...field }: TierFieldProps) {
  const [tiers, setTiers] = useState<readonly string[]>([])
  useEffect(() => void configuredTiers().then(setTiers), [])
  const options = [...new Set([...tiers, value])].map((one) => [one, one])
  return html`<${Select} ...${field} value=${value} options=${options} />`
}

/** Resolves with no tiers if they cannot be loaded; the next field tries again. */
function configuredTiers(): Promise<readonly string[]> {
  loading ??= admin<EffectiveSettings>('/settings').then(
    ({ settings }) => Object.keys(settings.tiers as object),
    () => {
      loading = null
      return []
    },
  )
  return loading
}
