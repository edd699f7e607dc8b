/**
 * The secrets of accounts, with which Parley signs callbacks. Callbacks are signed according to Standard Webhooks, so
 * that receivers can verify them with an existing library. `node:crypto` is faster than the package `standardwebhooks`, with which
 * the tests compare it.
 */
import { createHmac, randomBytes } from 'node:crypto'

const PREFIX = 'whsec_'

/** Standard Webhooks requires 24 to 64 bytes; this is the size of the hash. */
const SECRET_BYTES = 32
/** For how long after a rotation callbacks are also signed with the previous secret. */
const ROTATION_MS = 86_400_000

/** Creates a signing secret: `whsec_` followed by base64. */
export function makeSecret(random: (bytes: number) => Uint8Array = randomBytes): string {
  return PREFIX + Buffer.from(random(SECRET_BYTES)).toString('base64')
}

/** The secrets that sign now, the current one first. */
export function secretsInForce(
  secrets: {
    readonly current: string
    readonly previous: { readonly secret: string; readonly rotatedAtMs: number } | null
  },
  nowMs: number,
): string[] {
  const { current, previous } = secrets
  return previous && nowMs < previous.rotatedAtMs + ROTATION_MS ? [current, previous.secret] : [current]
}

/**
 * Returns the value of the header `webhook-signature`: one `v1,…` for each secret, separated by spaces. There are two while a
 * rotated secret is still valid, because the receiver may have either. `id` and `timestampS` are the values of `webhook-id` and
 * `webhook-timestamp`; `body` is exactly what is sent.
 */
export function sign(secrets: readonly string[], id: string, timestampS: number, body: string): string {
  if (secrets.length === 0) throw new Error('a callback needs a secret to sign with')
  return secrets.map((secret) => `v1,${digest(secret, `${id}.${timestampS}.${body}`)}`).join(' ')
}

function digest(secret: string, text: string): string {
  const key = Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, 'base64')
  if (key.length === 0) throw new Error('a signing secret is empty')
  return createHmac('sha256', key).update(text).digest('base64')
}
