/**
 * Creates the secrets of accounts and signs callbacks with them, as Standard Webhooks specifies. Signing uses `node:crypto`,
 * because the package `standardwebhooks` is slower; the tests compare the two.
 */
import { createHmac, randomBytes } from 'node:crypto'

const PREFIX = 'whsec_'

/** Standard Webhooks requires 24 to 64 bytes. A SHA-256 hash has 32. */
const SECRET_BYTES = 32
/** For this long after a rotation, callbacks are also signed with the previous secret. */
const ROTATION_MS = 86_400_000

/** Returns a signing secret: `whsec_` and base64. */
export function makeSecret(random: (bytes: number) => Uint8Array = randomBytes): string {
  return PREFIX + Buffer.from(random(SECRET_BYTES)).toString('base64')
}

/** Returns the secrets that sign callbacks now. The current one comes first. */
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
 * Returns the value of the header `webhook-signature`: one `v1,…` for each secret, separated by spaces.
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
