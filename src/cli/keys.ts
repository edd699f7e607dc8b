/** `parley keys`: creates, lists and revokes API keys. Servers may be running. */
import { ACCOUNT_NAME, ACCOUNT_RULE } from '../accounts/issue-key.ts'
import { keyView } from '../admin/account-view.ts'
import { createKeyAction, revokeKeyAction } from '../admin/actions/keys.ts'
import type { TierName } from '../job/tier.ts'
import type { KeyRecord } from '../store/account-store.ts'
import { CommandError } from './command-error.ts'
import { printLine } from './output.ts'
import { table } from './table.ts'
import { performAction, withOperatorStore } from './with-operator-store.ts'

/** A key with another ID cannot exist, so the command does not write to the audit log. */
const KEY_ID = /^\w{1,64}$/

export interface CreateKeyOptions {
  readonly account: string
  readonly tier: TierName
  readonly expires?: number
  readonly json?: true
  readonly config?: string
}

/** Prints the key and nothing else, so that scripts can use the output. */
export async function createKey({ account, tier, expires, json, config }: CreateKeyOptions): Promise<void> {
  if (!ACCOUNT_NAME.test(account)) {
    throw new CommandError(`--account: ${account} is not a valid account name. Use ${ACCOUNT_RULE}.`)
  }
  const request = { account, tier, expiresDays: expires ?? null, nowMs: Date.now() }
  const issued = await performAction(config, (store) => createKeyAction(store, request))
  if (issued.kind === 'other tier') {
    throw new CommandError(
      `Account ${account} has tier ${issued.tier}. Use that tier, or move the account first: parley accounts tier ${account} ${tier}`,
    )
  }
  printLine(json ? JSON.stringify({ account, tier, key: issued.key }, null, 2) : issued.key)
}

export async function listKeys({ json, config }: { json?: true; config?: string }): Promise<void> {
  const keys = await withOperatorStore(config, (accounts) => accounts.listKeys())
  if (json) return printLine(JSON.stringify(keys.map(keyView), null, 2))
  if (keys.length === 0)
    return printLine('There are no keys. Create one: parley keys create --account NAME --tier TIER')
  const rows = keys.map((key) => [
    key.id,
    key.account,
    key.tier,
    day(key.createdAtMs),
    stateOf(key, Date.now()),
  ])
  printLine(table([['KEY ID', 'ACCOUNT', 'TIER', 'CREATED', 'STATE'], ...rows]))
}

export async function revokeKey(
  keyId: string,
  { json, config }: { json?: true; config?: string },
): Promise<void> {
  const result = KEY_ID.test(keyId)
    ? await performAction(config, (store, clock) => revokeKeyAction(store, clock, keyId))
    : 'unknown'
  if (result === 'unknown') {
    throw new CommandError(
      `There is no key with the ID ${keyId}. Pass the key ID, not the key. \`parley keys list\` shows the IDs.`,
    )
  }
  if (json) return printLine(JSON.stringify({ id: keyId, revoked_now: result === 'revoked' }, null, 2))
  printLine(result === 'revoked' ? `Key ${keyId} was revoked.` : `Key ${keyId} was already revoked.`)
}

function stateOf({ expiresAtMs, revokedAtMs }: KeyRecord, nowMs: number): string {
  if (revokedAtMs !== null) return `revoked ${day(revokedAtMs)}`
  if (expiresAtMs === null) return 'active'
  return expiresAtMs <= nowMs ? `expired ${day(expiresAtMs)}` : `active until ${day(expiresAtMs)}`
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}
