/** Converts the settings of callbacks to the rules for where they may be sent. */
import { type AddressRules, readNetworks } from '../net/ssrf-guard.ts'
import type { Settings } from './settings.ts'

/** The list of networks is valid: it was checked with the configuration. */
export function addressRulesOf({ callbacks }: Settings): AddressRules {
  const read = readNetworks(callbacks.allow_networks)
  return { allow: read.ok ? read.networks : [], httpsOnly: callbacks.https_only }
}
