/** `parley accounts`: the secret that signs callbacks, and the tier. */
import type { TierName } from '../config/settings.ts'
import { makeSecret } from '../net/signature.ts'
import { CommandError } from './command-error.ts'
import { say } from './say.ts'
import { withOperatorStore } from './with-operator-store.ts'

/** Prints the secret and nothing else, so that a script can take it. */
export async function rotateOrPrintSecret(
  name: string,
  { rotate, json, config }: { rotate?: true; json?: true; config?: string },
): Promise<void> {
  const secret = await withOperatorStore(config, async (accounts) => {
    if (rotate) await accounts.rotateSecret(name, makeSecret(), Date.now())
    return (await accounts.secrets(name))?.current
  })
  if (secret === undefined) throw noSuchAccount(name)
  say(json ? JSON.stringify({ account: name, secret }, null, 2) : secret)
}

export async function setTier(
  name: string,
  tier: TierName,
  { json, config }: { json?: true; config?: string },
): Promise<void> {
  const known = await withOperatorStore(config, (accounts) => accounts.setTier(name, tier))
  if (!known) throw noSuchAccount(name)
  if (json) return say(JSON.stringify({ account: name, tier }, null, 2))
  say(`Account ${name} has tier ${tier}. A running server knows within seconds.`)
}

function noSuchAccount(name: string): CommandError {
  return new CommandError(
    `There is no account ${name}. \`parley keys create --account ${name} --tier TIER\` makes it.`,
  )
}
