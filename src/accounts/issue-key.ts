/** Issues keys and signing secrets for accounts. The first key of an account creates it. */
import { makeSecret } from '../net/signing-secrets.ts'
import type { AccountStore, RotatedKey } from '../store/account-store.ts'
import { hashKey, makeKey, makeKeyId } from './key.ts'

const DAY_MS = 86_400_000
/** The maximum lifetime of a key, a hundred years. */
export const MOST_DAYS = 36_500

export interface IssueRequest {
  readonly account: string
  readonly tier: string
  readonly label?: string | null
  /** Days until the key expires; null for never. */
  readonly expiresDays: number | null
  readonly nowMs: number
}

export type Issued =
  | { readonly kind: 'issued'; readonly key: string; readonly keyId: string }
  | { readonly kind: 'other tier'; readonly tier: string }

/** Returns the key, which is not stored, so it can never be shown again. */
export async function issueKey(store: AccountStore, request: IssueRequest): Promise<Issued> {
  const key = makeKey()
  const keyId = makeKeyId()
  const { account, tier, label = null, nowMs } = request
  const result = await store.createKey({
    id: keyId,
    hash: hashKey(key),
    account,
    tier,
    secret: makeSecret(),
    label,
    createdAtMs: nowMs,
    expiresAtMs: keyEndMs(request),
  })
  return result.kind === 'created' ? { kind: 'issued', key, keyId } : result
}

/** Issues a key that replaces another, which still works for the grace time. The new key can never be shown again. */
export async function rotateKey(
  store: Pick<AccountStore, 'rotateKey'>,
  keyId: string,
  graceMs: number,
  nowMs: number,
): Promise<RotatedKey & { readonly key: string }> {
  const key = makeKey()
  const rotated = await store.rotateKey({ keyId, newId: makeKeyId(), newHash: hashKey(key), nowMs, graceMs })
  return { ...rotated, key }
}

/** Returns when a key that is issued now expires; null for never. */
export function keyEndMs({ expiresDays, nowMs }: IssueRequest): number | null {
  return expiresDays === null ? null : nowMs + Math.round(expiresDays * DAY_MS)
}

/** Gives the account a new signing secret; see `AccountStore.rotateSecret`. */
export function rotateSecret(store: AccountStore, account: string, nowMs: number): Promise<boolean> {
  return store.rotateSecret(account, makeSecret(), nowMs)
}
