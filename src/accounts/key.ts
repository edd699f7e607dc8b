/**
 * API keys: their format, and how they are issued. The first key of an account also creates the account. A key consists of
 * `prl_`, 32 random base62 characters and a checksum, which reveals a mistyped or invented key without a database lookup. Only
 * a hash of the key is stored.
 */
import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { makeSecret } from '../net/signing-secrets.ts'
import type { AccountStore, RotatedKey } from '../store/account-store.ts'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const PREFIX = 'prl_'
const RANDOM_LENGTH = 32
const CHECKSUM_LENGTH = 6
const SHAPE = /^prl_[0-9A-Za-z]{38}$/
/** Bytes from here on are discarded, because otherwise some digits would be more likely: 248 is a multiple of 62. */
const FAIR_BYTES = 248

export function makeKey(random: (bytes: number) => Uint8Array = randomBytes): string {
  let text = ''
  while (text.length < RANDOM_LENGTH) {
    for (const byte of random(RANDOM_LENGTH)) {
      if (byte < FAIR_BYTES && text.length < RANDOM_LENGTH) text += DIGITS[byte % 62]
    }
  }
  return PREFIX + text + checksum(PREFIX + text)
}

export function isWellFormedKey(text: string): boolean {
  return SHAPE.test(text) && text.endsWith(checksum(text.slice(0, PREFIX.length + RANDOM_LENGTH)))
}

/** A fast hash without a salt is safe, because a key is long and random. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'base64url')
}

/** The ID names the key in lists and commands. It grants no access. */
export function makeKeyId(): string {
  return `key_${randomBytes(8).toString('hex')}`
}

function checksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = DIGITS[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

const DAY_MS = 86_400_000
export const MOST_DAYS = 36_500

interface IssueRequest {
  readonly account: string
  readonly tier: string
  readonly label?: string | null
  readonly expiresDays: number | null
  readonly nowMs: number
}

type Issued =
  | { readonly kind: 'issued'; readonly key: string; readonly keyId: string }
  | { readonly kind: 'other tier'; readonly tier: string }

/** Only a hash of the key is stored, so the operator must be shown the key now. */
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

/**
 * The replaced key still works during the grace period. Only a hash of the new key is stored, so the operator must be shown the
 * new key now.
 */
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

export function keyEndMs({ expiresDays, nowMs }: IssueRequest): number | null {
  return expiresDays === null ? null : nowMs + Math.round(expiresDays * DAY_MS)
}

export function rotateSecret(store: AccountStore, account: string, nowMs: number): Promise<boolean> {
  return store.rotateSecret(account, makeSecret(), nowMs)
}
