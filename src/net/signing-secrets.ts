/**
 * The secrets of accounts, with which Parley signs callbacks. Signatures comply with Standard Webhooks, so that receivers can
 * verify them with existing libraries. Signing uses `node:crypto`, because the package `standardwebhooks` is slower; the tests
 * compare the two.
 */
import { createHmac, randomBytes } from 'node:crypto'

const PREFIX = 'whsec_'

/** Standard Webhooks requires 24 to 64 bytes. 32 is the size of the SHA-256 hash in a signature. */
const SECRET_BYTES = 32
/**
 * For how many milliseconds after a rotation callbacks are also signed with the previous secret. Only one previous secret is
 * stored (`store/accounts.ts`).
 */
const ROTATION_MS = 86_400_000

/** Creates a signing secret: `whsec_` and base64. */
export function makeSecret(random: (bytes: number) => Uint8Array = randomBytes): string {
  return PREFIX + Buffer.from(random(SECRET_BYTES)).toString('base64')
}

/** Returns the secrets with which callbacks are signed now, the current one first. */
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
 * Returns the value of the header `webhook-signature`: one `v1,…` for each secret, separated by spaces. For some time after a
 * rotation there are two secrets, because the receiver may still have the previous one.
 * @param id the value of `webhook-id`
 * @param timestampS the value of `webhook-timestamp`
 * @param body exactly the text that is sent
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
